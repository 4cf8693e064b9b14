// A library with functions of its own that have names of a BLAS.
extern "C" {

int sgemm(int a, int b)
{
	return a * 100 + b;
}

double ssyrk(double value)
{
	return value / 2;
}

struct Pair {
	double first, second;
};

Pair SGEMM(const char *text)
{
	return {static_cast<double>(text[0]), static_cast<double>(text[1])};
}

char run() // through the symbols, as a program would
{
	const Pair pair = SGEMM("xy");
	return sgemm(12, 34) == 1234 && ssyrk(3) == 1.5 && pair.first == 'x' && pair.second == 'y' ? 'e' : 'w';
}

} // extern "C"
