// `autoamp diff` as a document for pull requests: one sentence, totals, and the signatures that changed; with
// DiffOptions::all the others too. Main thread.
#pragma once

#include "tools/autoamp/comparison.h"
#include "tools/autoamp/sheet.h"

#include <cstdio>

namespace autoamp::tool {

// sheet: the selected signatures, as in JSON.
void writeDiffMarkdown(std::FILE *out, const Comparison &comparison, const Sheet &sheet);
void writeDiffHtml(std::FILE *out, const Comparison &comparison, const Sheet &sheet);

} // namespace autoamp::tool
