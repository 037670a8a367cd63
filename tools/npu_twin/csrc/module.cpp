// torch_npu._twin: loading it registers the device; its functions are the seam to Python.
#include <Python.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include "alias.h"
#include "fallback.h"
#include "memory.h"

namespace {

PyObject* wrapped_view(PyObject* argument, at::Tensor (*view)(const at::Tensor&)) {
    HANDLE_TH_ERRORS
    if (!THPVariable_Check(argument)) {
        PyErr_SetString(PyExc_TypeError, "expected a torch.Tensor");
        return nullptr;
    }
    return THPVariable_Wrap(view(THPVariable_Unpack(argument)));
    END_HANDLE_TH_ERRORS
}

PyObject* cpu_view(PyObject*, PyObject* tensor) { return wrapped_view(tensor, &npu_twin::cpu_view); }
PyObject* npu_view(PyObject*, PyObject* tensor) { return wrapped_view(tensor, &npu_twin::npu_view); }
PyObject* current_device(PyObject*, PyObject*) { return PyLong_FromLong(npu_twin::current_device().index()); }
PyObject* device_count(PyObject*, PyObject*) { return PyLong_FromLong(npu_twin::device_count()); }
PyObject* set_device(PyObject*, PyObject* index) {
    HANDLE_TH_ERRORS
    npu_twin::set_current_device(static_cast<c10::DeviceIndex>(PyLong_AsLong(index)));
    Py_RETURN_NONE;
    END_HANDLE_TH_ERRORS
}
PyObject* allocated(PyObject*, PyObject*) { return PyLong_FromLongLong(npu_twin::allocated_bytes()); }
PyObject* peak(PyObject*, PyObject*) { return PyLong_FromLongLong(npu_twin::peak_bytes()); }
PyObject* reset_peak(PyObject*, PyObject*) {
    npu_twin::reset_peak_bytes();
    Py_RETURN_NONE;
}
PyObject* set_counting(PyObject*, PyObject* on) {
    npu_twin::set_counting(PyObject_IsTrue(on) == 1);
    Py_RETURN_NONE;
}
PyObject* op_counts(PyObject*, PyObject*) {
    PyObject* counts = PyDict_New();
    for (const auto& [name, calls] : npu_twin::op_counts()) {
        PyObject* value = PyLong_FromLongLong(calls);
        PyDict_SetItemString(counts, name.c_str(), value);
        Py_DECREF(value);
    }
    return counts;
}

PyMethodDef methods[] = {
    {"cpu_view", cpu_view, METH_O, "CPU tensor over the bytes of an npu tensor (other tensors pass through)."},
    {"npu_view", npu_view, METH_O, "npu tensor over the bytes of a CPU tensor."},
    {"current_device", current_device, METH_NOARGS, "Index of the calling thread's device."},
    {"device_count", device_count, METH_NOARGS, "Number of devices (NPU_TWIN_DEVICES)."},
    {"set_device", set_device, METH_O, "Select a device for the calling thread."},
    {"allocated", allocated, METH_NOARGS, "Bytes held by npu tensors."},
    {"peak", peak, METH_NOARGS, "Most bytes held since reset_peak()."},
    {"reset_peak", reset_peak, METH_NOARGS, "Start a new peak measurement."},
    {"set_counting", set_counting, METH_O, "Count aten fallback calls from now on."},
    {"op_counts", op_counts, METH_NOARGS, "Calls per aten op while counting."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_twin", "CPU-backed npu device", -1, methods};

}  // namespace

PyMODINIT_FUNC PyInit__twin() { return PyModule_Create(&definition); }
