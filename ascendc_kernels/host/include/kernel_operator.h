// Host stand-in for the Ascend C header of the same name: the API subset that the kernels of this project use.
#pragma once

#include "host_layer/cast.h"
#include "host_layer/copy.h"
#include "host_layer/queue.h"
#include "host_layer/reduce.h"
#include "host_layer/select.h"
#include "host_layer/sync.h"
#include "host_layer/vector.h"
