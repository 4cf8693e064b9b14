// fmt, compiled once: the functions of its headers as those of a library, which -fkeep-inline-functions keeps although
// nothing here calls them. Files that do not define FMT_HEADER_ONLY call them.
#define FMT_HEADER_ONLY
#include <fmt/format.h>
