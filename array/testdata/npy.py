# Writes the .npy files of this folder:  python npy.py      (numpy 2, ml_dtypes)
import ml_dtypes
import numpy as np

x = np.array([[0, 1, 2], [3, 4, 100]])
for name, dtype in dict(bool="?", u8="u1", u32="u4", i32="i4", i64="i8", f16="f2", bf16=ml_dtypes.bfloat16, f32="f4", f64="f8").items():
    np.save(name, (x != 0 if name == "bool" else x).astype(dtype))
np.save("scalar", np.float32(2.5))
np.save("vector", np.arange(3, dtype="i4"))
np.save("empty", np.zeros((3, 0, 2), "f4"))
np.save("fortran", np.asfortranarray(np.arange(24, dtype="i4").reshape(2, 3, 4)))
np.save("void", np.array([1, 2], ml_dtypes.bfloat16).view("V2"))
with open("version2.npy", "wb") as f:
    np.lib.format.write_array(f, np.arange(4, dtype="f8"), version=(2, 0))
with open("version3.npy", "wb") as f:
    np.lib.format.write_array(f, np.arange(4, dtype="f8"), version=(3, 0))
np.save("bigendian", np.arange(3, dtype=">f4"))
np.save("object", np.array([{}, 1], dtype=object), allow_pickle=True)
np.save("record", np.zeros(2, [("a", "f4"), ("b", "i4")]))
np.save("complex", np.zeros(2, "c8"))
