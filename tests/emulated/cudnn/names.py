"""cuDNN names, and those that the emulated library implements only as stubs."""

STUBS = ('cudnnFusedOps', 'cudnnCreateFusedOps', 'cudnnDestroyFusedOps', 'cudnnMakeFusedOps', 'cudnnSetFusedOps',
         'cudnnGetFusedOps', 'cudnnMultiHeadAttn', 'cudnnGetMultiHeadAttn', 'cudnnCreateAttn', 'cudnnDestroyAttn',
         'cudnnSetAttn', 'cudnnGetAttn', 'cudnnCreateSeqData', 'cudnnDestroySeqData', 'cudnnSetSeqData', 'cudnnGetSeqData',
         'cudnnDivisiveNormalization', 'cudnnNormalization', 'cudnnGetNormalization', 'cudnnDeriveNorm',
         'cudnnDropoutForward', 'cudnnDropoutBackward', 'cudnnDropoutGetReserveSpaceSize', 'cudnnIm2Col',
         'cudnnInitTransformDest', 'cudnnReorderFilterAndBias',
         'cudnnGetBackdoor', 'cudnnSetBackdoor', 'cudnnGetRNNDropoutLocationsInternal')
ANSWERS = ('cudnnGetVersion', 'cudnnGetMaxDeviceVersion', 'cudnnGetCudartVersion', 'cudnnGetErrorString',
           'cudnnGetLastErrorString')  # no statuses


def exported(path):
    """The names in exports.txt that return a status."""
    with open(path, encoding='utf-8') as file:
        names = [line.split()[0] for line in file if line.strip() and not line.startswith('#')]
    return [name for name in names if name not in ANSWERS]
