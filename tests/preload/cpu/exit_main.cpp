// exit_main PLUGIN PLUGIN: opens the first one at once and the second one at exit, and prints the results.
extern "C" void begin(const char *first, const char *second);

int main(int, char **argv)
{
	begin(argv[1], argv[2]);
	return 0;
}
