// Prints the options table as Markdown, for docs/configuration.md.
#include "src/policy/options.h"

#include <cstdio>

int main()
{
	using namespace autoamp::policy;
	std::puts("| variable | values | default | meaning |\n|---|---|---|---|");
	for (const OptionRow &row : optionTable()) {
		const std::string fallback = *row.fallback ? "`" + std::string(row.fallback) + "`" : "";
		std::printf("| `%s` | %s | %s | %s |\n", row.name, acceptedValues(row).c_str(), fallback.c_str(), row.help);
	}
	for (const EmulatorSetting &row : emulatorSettings()) {
		const std::string fallback = *row.fallback ? "`" + std::string(row.fallback) + "`" : "";
		std::printf("| `%s` | %s | %s | %s |\n", row.name, row.values, fallback.c_str(), row.help);
	}
	return 0;
}
