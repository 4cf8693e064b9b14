// `autoamp bisect`: runs a program with parts of its calls kept in fp32, and finds the calls whose lowering makes its
// check fail. Main thread. docs/adr/0046 describes the search.
#pragma once

#include "tools/autoamp/failure.h"
#include "tools/autoamp/run.h"

namespace autoamp::tool {

struct BisectOptions {
	RunOptions run;               // of every run
	std::string check;            // for /bin/sh; "": the status of the program decides
	std::string by = "signature"; // signature, caller, region
	std::string out, state;       // files; "": none
	bool force = false, quiet = false;
};
// Status::done: calls were found, or the check passes with all calls lowered. Status::failed: keeping calls does not
// help. Any other failure before or during the search is Status::wrong, and a signal 128+N.
Status bisect(BisectOptions options, std::span<const char *const> entries);

} // namespace autoamp::tool
