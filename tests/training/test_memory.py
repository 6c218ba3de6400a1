"""Memory that the C library keeps."""

import ctypes
import platform
import resource

import pytest

from keras_attn.training import kept_memory

GLIBC = platform.libc_ver()[0] == "glibc"


def page_faults(rounds=4, size=48 * 2**20):
    """Page faults of memory that is taken, written and given back."""
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    library.free.argtypes = [ctypes.c_void_p]
    before = 0
    for number in range(rounds + 1):
        if number == 1:  # the first round is new anyway
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        place = library.malloc(ctypes.c_size_t(size))
        ctypes.memset(place, 1, size)
        library.free(place)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.mark.skipif(not GLIBC, reason="another C library than glibc")
def test_memory_is_used_again():
    outside = page_faults()
    with kept_memory():
        inside = page_faults()
    assert inside < outside / 4
    assert page_faults() > outside / 2  # as it was
    with pytest.raises(KeyError), kept_memory():
        raise KeyError
    assert page_faults() > outside / 2
