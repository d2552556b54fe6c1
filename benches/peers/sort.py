"""torch's stable sort, eager and compiled, which sorts by CUB and always gives indices; CuPy's of one row
without them, where it is installed."""

import torch

try:
    import cupy
except ImportError:
    cupy = None


def peers(case):
    def function(x):
        values, indices = torch.sort(x, dim=-1, stable=True)
        return {"y": values, "indices": indices}

    compiled = torch.compile(function, dynamic=False)
    result = {
        "torch": lambda x: lambda: function(x.x),
        "torch.compile": lambda x: lambda: compiled(x.x),
    }
    if cupy is not None and case["cupy"]:

        def run(x):
            array = cupy.asarray(x.x)
            stream = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)

            def call():
                with stream:
                    return {"y": torch.as_tensor(cupy.sort(array), device="cuda")}

            return call

        result["cupy"] = run
    return result
