// A library with functions of its own that have names of a BLAS. -DOTHER: other functions. -DACML: it is a BLAS with an
// interface of its own next to that of Fortran.
extern "C" {

#ifdef OTHER
static constexpr int factor = 1000;
#else
static constexpr int factor = 100;
#endif

#ifdef ACML
void acmlversion(int *, int *, int *) {}

void sgemm_(...) {}
#endif

int sgemm(int a, int b)
{
	return a * factor + b;
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

int multiply(int a, int b) // ends in a call of a function that has the name of a routine
{
	return sgemm(a, b);
}

char run() // through the symbols, as a program would
{
	const Pair pair = SGEMM("xy");
	return sgemm(12, 34) == 12 * factor + 34 && ssyrk(3) == 1.5 && pair.first == 'x' && pair.second == 'y' ? 'e' : 'w';
}

} // extern "C"
