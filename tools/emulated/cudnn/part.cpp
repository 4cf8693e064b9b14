// A cuDNN sub-library. It needs libcudnn.so.9, so look-ups in the sub-library find the functions there.
#include <cudnn_graph.h>

[[gnu::used]] static auto *const needed = &cudnnGetVersion;
