"""torch's reductions and running sums, eager and compiled; CuPy's where it is installed."""

import torch

try:
    import cupy
except ImportError:
    cupy = None


def functions(op, axis):
    dims = {} if axis is None else {"dim": axis}
    return {
        "sum": lambda x: {"y": torch.sum(x, **dims)},
        "max": lambda x: {"y": torch.amax(x, **dims)},
        "argmax": lambda x: {"y": torch.argmax(x, **dims)},
        "norm2": lambda x: {"y": torch.linalg.vector_norm(x, **dims)},
        "variance_mean": lambda x: {"y": torch.var_mean(x, **dims)[0]},
        "scan": lambda x: {"y": torch.cumsum(x, **dims)},
    }[op]


def peers(case):
    function = functions(case["op"], case["axis"])
    compiled = torch.compile(function, dynamic=False)
    result = {
        "torch": lambda x: lambda: function(x.x),
        "torch.compile": lambda x: lambda: compiled(x.x),
    }
    names = {"sum": "sum", "max": "amax", "argmax": "argmax", "scan": "cumsum"}
    if cupy is not None and case["op"] in names:
        of_cupy = getattr(cupy, names[case["op"]])

        def run(x):
            array = cupy.asarray(x.x)
            stream = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)

            def call():
                with stream:
                    return {"y": torch.as_tensor(of_cupy(array, axis=case["axis"]), device="cuda")}

            return call

        result["cupy"] = run
    return result
