"""Which types and functions a skops file may hold: what computes, not what reads or writes files, downloads or runs code.

An estimator's own functions run when it is validated, and one step can hand any text to the next: a file may therefore not
name `numpy.load` either, which reads pickles. Types may be any that do not act, functions only those that are listed.
"""

from __future__ import annotations

import builtins

import numpy as np

_NUMERIC = frozenset(("numpy", "scipy", "sklearn"))
_ESTIMATORS = frozenset(("catboost", "category_encoders", "collections", "imblearn", "lightgbm", "xgboost"))
# Parts of these packages that act, and what acts in the rest. SciPy's distributions run text of their own when they are loaded.
_ACTING_MODULES = frozenset(
    "_build_utils _continuous_distns _core _datasource _discrete_distns _distn_infrastructure _lib _mocking _npyio_impl "
    "_pytesttester _testing conftest ctypeslib datasets distutils externals f2py io lib npyio show_versions testing "
    "tests".split()
)
_ACTING = frozenset(
    "DataSource NpzFile frombuffer fromfile fromregex genfromtxt info load load_npz loadtxt memmap open_memmap save save_npz "
    "savetxt savez savez_compressed show_config show_runtime source test".split()
)


def is_trusted(name: str) -> bool:
    """Whether the object of a name may be loaded.

    >>> is_trusted("numpy.clip"), is_trusted("numpy.load"), is_trusted("numpy.testing._private.utils.measure")
    (True, False, False)
    """
    package, *modules, last = name.split(".")
    if package == "builtins":
        return not modules and isinstance(getattr(builtins, last, None), type)
    if package in _ESTIMATORS:  # of these classes alone
        return last.lstrip("_")[:1].isupper() or (package == "collections" and last in ("defaultdict", "deque"))
    if modules[:2] == ["_lib", "array_api_compat"]:  # which SciPy keeps among what is its own
        del modules[0]
    return package in _NUMERIC and _ACTING_MODULES.isdisjoint(modules) and last not in _ACTING


# Functions of arrays that compute and give no more than they are given: what repeats, tiles or pads takes any memory.
_OF_ARRAYS = frozenset(
    "abs absolute add all allclose amax amin angle any append apply_along_axis apply_over_axes argmax argmin "
    "argpartition argsort argwhere around array asanyarray asarray asarray_chkfinite ascontiguousarray asfortranarray "
    "atleast_1d atleast_2d atleast_3d average bitwise_count broadcast_arrays cbrt ceil choose clip column_stack "
    "compress concat concatenate conj copy corrcoef count_nonzero cov cross cumprod cumsum cumulative_prod "
    "cumulative_sum deg2rad degrees delete diag diagonal diff digitize divide dot dsplit dstack ediff1d equal exp "
    "exp2 expand_dims expm1 extract fix flatnonzero flip fliplr flipud floor full_like gradient heaviside histogram "
    "hsplit hstack hypot i0 imag insert interp intersect1d isclose iscomplex isfinite isin isinf isnan isneginf "
    "isposinf isreal lexsort log log10 log1p log2 logaddexp matmul matrix_transpose max maximum mean median min "
    "minimum mod moveaxis multiply nan_to_num nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmedian "
    "nanmin nanpercentile nanprod nanquantile nanstd nansum nanvar ndim negative nonzero ones_like partition "
    "percentile permute_dims piecewise polyval power prod ptp quantile rad2deg radians ravel real real_if_close "
    "reciprocal require reshape roll rollaxis rot90 round searchsorted select setdiff1d shape sign sin sinc size sort "
    "sort_complex split sqrt square squeeze stack std subtract sum swapaxes take take_along_axis tan tanh tensordot "
    "trace transpose trapezoid tril trim_zeros triu true_divide trunc union1d unique unstack unwrap var vdot vecdot "
    "vsplit vstack where zeros_like inner cos arctan2 fmax fmin norm det inv slogdet fft ifft rfft irfft fftshift "
    "ifftshift ".split()
)
_OF_STATISTICS = frozenset(
    "zscore rankdata boxcox boxcox_llf yeojohnson skew kurtosis entropy iqr tmean gmean hmean zmap sem moment gzscore".split()
)
# Rooms of scikit-learn whose functions only compute.
_COMPUTING = (
    "sklearn.metrics.pairwise sklearn.metrics._pairwise_distances_reduction sklearn.metrics._classification "
    "sklearn.metrics._ranking sklearn.metrics._regression sklearn.metrics.cluster sklearn.preprocessing._data "
    "sklearn.preprocessing._label sklearn.feature_selection sklearn.utils.extmath sklearn.utils._encode "
    "sklearn.neural_network sklearn.decomposition sklearn.covariance sklearn.linear_model sklearn.gaussian_process "
    "sklearn.manifold sklearn.isotonic sklearn.kernel_approximation scipy.special scipy.spatial.distance"
).split()


def is_computing(name: str) -> bool:
    """Whether a function may be called with anything: it computes, and does nothing else.

    >>> is_computing("numpy.log1p"), is_computing("sklearn.datasets._svmlight_format_io.dump_svmlight_file")
    (True, False)
    """
    package, *modules, last = name.split(".")
    room = ".".join((package, *modules))
    if package == "numpy":
        plain = {"testing", "f2py", "ctypeslib", "distutils"}.isdisjoint(modules)
        plain = plain and _ACTING_MODULES.isdisjoint({*modules} - {"lib"})
        return plain and (last in _OF_ARRAYS or isinstance(getattr(np, last, None), np.ufunc))
    if room.startswith("scipy._lib.array_api_compat."):  # which SciPy keeps in its splines
        return last in _OF_ARRAYS
    if name in ("sklearn.cluster._kmeans._kmeans_single_lloyd", "sklearn.cluster._kmeans._kmeans_single_elkan"):
        return True
    if not is_trusted(name) or "test" in last or "test" in room or "plot" in room:
        return False
    if room.startswith("scipy.stats"):
        return last in _OF_STATISTICS
    return any(room == part or room.startswith(f"{part}.") for part in _COMPUTING)
