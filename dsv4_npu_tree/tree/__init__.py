"""Tree topology, verification and sampling rules; knows no SGLang."""
