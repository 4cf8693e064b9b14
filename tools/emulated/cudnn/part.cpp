// A sub-library of cuDNN: what is looked up in it is found in the libcudnn.so.9 that it needs.
#include <cudnn_graph.h>

[[gnu::used]] static auto *const needed = &cudnnGetVersion;
