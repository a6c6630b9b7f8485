"""Takes lists, maps and structs of many rows apart, into Arrow's buffers and lists of the values in them."""

cdef bint has_repeats(list keys, Py_ssize_t newest) except -1
