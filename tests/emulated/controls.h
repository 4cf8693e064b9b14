// The main function of programs with small clients, each correct or with one error. `PROGRAM NAME right|wrong` runs
// one: exit status 0 means that its calls succeeded and its results are correct. `PROGRAM` lists the names. controls.py
// verifies that the wrong ones do not exit with 0.
#pragma once

#include <cstdio>
#include <cstring>

#define CONTROL(name)                                                                                                  \
	{                                                                                                                  \
#name, name                                                                                                    \
	}

template <typename Rows, typename Run>
int runControl(int argc, char **argv, const Rows &rows, Run run)
{
	for (const auto &row : rows)
		if (argc < 3)
			std::puts(row.name);
		else if (std::strcmp(argv[1], row.name) == 0)
			return run(row, std::strcmp(argv[2], "right") == 0) ? 0 : 1;
	return argc < 3 ? 0 : 2;
}
