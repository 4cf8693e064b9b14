// Prints the options table as Markdown, for docs/configuration.md.
#include "src/config/options.h"

#include <cstdio>

int main()
{
	using namespace autoamp::policy;
	std::puts("| variable | values | default | meaning |\n|---|---|---|---|");
	const auto print = [](const auto &row, const std::string &values) {
		const std::string fallback = *row.fallback ? "`" + std::string(row.fallback) + "`" : "";
		std::printf("| `%s` | %s | %s | %s |\n", row.name, values.c_str(), fallback.c_str(), row.help);
	};
	for (const OptionRow &row : optionTable())
		print(row, acceptedValues(row));
	for (const EmulatorSetting &row : emulatorSettings())
		print(row, row.values);
	return 0;
}
