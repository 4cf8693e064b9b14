// Operands that are hard for float16: the families of the published model of the loss check (docs/adr/0034), drawn by
// a generator of their own. A pure function of the family and the seed.
#pragma once

#include "harness.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

namespace client {

// op(A), m x k, and op(B), k x n, by rows.
struct Operands {
	int m = 0, n = 0, k = 0;
	std::vector<double> a, b;

	Operands(int m, int n, int k) : m(m), n(n), k(k), a(static_cast<size_t>(m) * k), b(static_cast<size_t>(k) * n) {}
	double &atA(int i, int l) { return a[static_cast<size_t>(i) * k + l]; }
	double &atB(int l, int j) { return b[static_cast<size_t>(l) * n + j]; }
};

class Draw
{
public:
	explicit Draw(uint64_t seed) : random_(seed) {}
	double uniform(double low, double high) { return low + (high - low) * random_.uniform(); }
	int whole(int low, int high) { return low + static_cast<int>(random_.uniform() * (high - low)); } // below high
	double gaussian() { return random_.gaussian(); }
	double sign() { return random_.uniform() < 0.5 ? -1 : 1; }
	double heavy(double width) { return std::exp(width * gaussian()) * sign(); }
	double student(double freedom) // by Bailey's polar method
	{
		double u = 0, w = 0;
		do {
			u = uniform(-1, 1);
			const double v = uniform(-1, 1);
			w = u * u + v * v;
		} while (w > 1 || w == 0);
		return u * std::sqrt(freedom * (std::pow(w, -2 / freedom) - 1) / w);
	}
	double ten(double low, double high) { return std::pow(10, uniform(low, high)); }
	double two(double low, double high) { return std::exp2(uniform(low, high)); }
	template <size_t count>
	double choice(const double (&of)[count])
	{
		return of[whole(0, count)];
	}

private:
	Random random_;
};

// Fills the operands, which are Gaussian before.
class Family
{
public:
	Family(Draw &draw, Operands &operands)
	    : r(draw), made(operands), m(made.m), n(made.n), k(made.k), isFlipped(r.sign() > 0), isOther(r.sign() > 0)
	{
		fillA([this](int, int) { return r.gaussian(); });
		fillB([this](int, int) { return r.gaussian(); });
	}

	void dense()
	{
		const double scaleA = r.ten(-18, 17), scaleB = r.ten(-18, 17);
		fillA([&](int, int) { return scaleA * (isFlipped ? r.gaussian() : r.uniform(0, 1)); });
		fillB([&](int, int) { return scaleB * (isOther ? std::max(r.gaussian(), 0.) : r.whole(-8, 9)); });
	}

	void lognormal()
	{
		const double s = r.uniform(0, 6), t = isOther ? r.uniform(0, 6) : 0, zeros = r.choice({0, .5, .95});
		fillA([&](int, int) { return r.uniform(0, 1) < zeros ? 0 : isFlipped ? std::abs(r.heavy(s)) : r.heavy(s); });
		fillB([&](int, int) { return isFlipped ? std::abs(r.heavy(t)) : r.heavy(t); });
	}

	void cauchy()
	{
		const double s = r.choice({.5, 1, 2, 3}), t = r.choice({.5, 1, 2, 3, 9});
		fillA([&](int, int) { return r.student(s); });
		fillB([&](int, int) { return r.student(t); });
	}

	void row_units()
	{
		const double p = r.uniform(0, 10);
		const auto rows = each(m, [&] { return r.ten(-p, p); }),
		           columns = each(n, [&] { return isOther ? r.ten(-p, p) : 1; });
		fillA([&](int i, int) { return r.gaussian() * rows[i]; });
		fillB([&](int, int j) { return r.gaussian() * columns[j]; });
	}

	void few_rows()
	{
		const double down = r.two(-50, 0);
		for (int count = r.whole(1, 5), row = r.whole(0, m); count > 0; count--, row = r.whole(0, m))
			for (int l = 0; l < k; l++)
				made.atA(row, l) *= down;
	}

	void opposed(bool isCrossed)
	{
		const double p = isCrossed ? r.uniform(0, 9) * std::log2(10.) : r.whole(6, 19), s = r.uniform(0, 3) * isOther;
		const auto d = each(k, [&] { return std::exp2(isFlipped ? p * r.sign() : r.uniform(-p, p)); });
		fillA([&](int, int l) { return r.heavy(s) * d[l]; });
		fillB([&](int l, int) { return r.heavy(s) / d[l]; });
	}

	void crossed() { opposed(true); }

	void signs_search() { opposed(false); }

	void feature()
	{
		const int large = r.whole(1, std::max(2, k / 16)), last = r.whole(0, n);
		const double up = r.uniform(4, 44), down = r.uniform(0, up + 2);
		fillA([&](int, int l) {
			return (std::abs(r.gaussian()) + .1) * (isFlipped ? r.sign() : 1) * (l < large ? std::exp2(up) : 1);
		});
		fillB([&](int l, int j) {
			return std::abs(r.gaussian()) * (isFlipped ? r.sign() : 1) *
			       (l >= large ? 1
			        : j < last ? std::exp2(-down)
			                   : 0);
		});
	}

	void sentinel()
	{
		const double small = std::exp2(-r.whole(8, 40)), first = std::exp2(-r.whole(0, 12)),
		             weight = std::exp2(-r.whole(0, 20));
		fillA([&](int i, int l) { return l ? small * (std::abs(r.gaussian()) + .5) : i ? first : 16384; });
		fillB([&](int l, int j) { return l ? 4096 * (std::abs(r.gaussian()) + .5) : j ? 0 : weight; });
	}

	void llm()
	{
		const double scale = r.ten(1, 3.5), massive = r.ten(0, 2), down = isOther ? r.ten(-4, 0) : 1;
		const int channel = r.whole(0, k), row = r.whole(0, m);
		fillA([&](int i, int l) { return r.gaussian() * (l == channel ? scale * (i == row ? massive : 1) : 1); });
		fillB([&](int l, int) { return .02 * r.gaussian() * (l == channel ? down : 1); });
	}

	void softmax()
	{
		const double width = r.uniform(.5, 12);
		for (int i = 0; i < m; i++) {
			double sum = 0;
			for (int l = 0; l < k; l++)
				sum += made.atA(i, l) = isOther && l > i * k / m ? 0 : std::exp(width * r.gaussian());
			for (int l = 0; l < k; l++)
				made.atA(i, l) /= sum;
		}
	}

	void mask()
	{
		const double share = r.uniform(.1, 1);
		const auto masked = each(k, [&] { return r.uniform(0, 1) < .125; });
		fillA([&](int, int l) { return masked[l] && r.uniform(0, 1) < share ? -3.4028234e38 : r.gaussian(); });
		fillB([&](int l, int) { return masked[l] ? 0 : r.gaussian(); });
	}

	void gradient()
	{
		const double p = r.uniform(0, 8), q = r.uniform(0, 3);
		const auto tokens = each(isOther ? k : m, [&] { return 1e-6 * r.ten(-p, 0); });
		if (isOther)
			fillB([&](int l, int) { return r.heavy(q) * tokens[l]; });
		else
			fillA([&](int i, int) { return r.heavy(q) * tokens[i]; });
	}

	void selection(bool isOneHot)
	{
		const int step = 2 * r.whole(0, k) + 1;
		fillA([&](int i, int l) {
			return l == (isOneHot ? i * step : i + step) % k ? isOther ? 1 : r.uniform(.5, 2) : 0;
		});
		const double p = r.uniform(0, 9), s = r.uniform(0, 4);
		const auto rows = each(k, [&] { return r.ten(-p, 0); });
		fillB([&](int l, int) { return isOneHot ? r.gaussian() * rows[l] : r.heavy(s); });
	}

	void one_hot() { selection(true); }

	void permutation() { selection(false); }

	void pruned()
	{
		const double s = r.uniform(0, 2), t = r.uniform(0, 3), keepA = r.ten(-2, 0), keepB = r.ten(-2, 0);
		const auto rows = each(k, [&] { return r.ten(-5, 0); });
		fillA([&](int, int) { return r.uniform(0, 1) < keepA ? r.heavy(s) : 0; });
		fillB([&](int l, int) { return r.uniform(0, 1) < keepB ? r.heavy(t) * rows[l] : 0; });
	}

	void rank_one()
	{
		const double s = r.uniform(0, 5);
		const auto heavy = [&] { return r.heavy(s); };
		const auto u = each(m, heavy), v = each(k, heavy), w = each(k, heavy), x = each(n, heavy);
		fillA([&](int i, int l) { return u[i] * v[l]; });
		fillB([&](int l, int j) { return w[l] * x[j]; });
	}

	void banded()
	{
		const double width = r.uniform(.3, 20), decay = r.uniform(-20, 0);
		fillA([&](int i, int l) { return std::exp(-std::abs(double(i) * k / m - l) / width); });
		fillB([&](int l, int) { return r.gaussian() * std::exp(decay * l / k); });
	}

	void classics()
	{
		const int which = r.whole(0, 5);
		fillA([&](int i, int l) {
			return which == 0   ? 1 / (i + l + 1.)
			       : which == 1 ? std::cos(std::numbers::pi * i * (l + .5) / k)
			       : which == 2 ? std::pow(double(i) / m, std::min(l, 30))
			       : which == 3 ? (i == l                 ? 2
			                       : std::abs(i - l) == 1 ? -1
			                                              : 0)
			                    : std::pow(.9, std::abs(i - l));
		});
		fillB([&](int l, int j) {
			return isFlipped ? r.gaussian() : isOther ? std::cos(double(l) * j / k) : 1 / (1. + l + j);
		});
	}

	void financial()
	{
		const auto units = each(k, [&] { return std::pow(10, r.choice({-5, -2, 0, 2, 4, 9, 12, 18})); });
		const double s = r.uniform(0, 1.5), power = r.uniform(0, 1.1);
		fillA([&](int, int l) { return std::abs(r.heavy(s)) * units[l]; });
		fillB([&](int l, int) { return r.gaussian() / std::pow(units[l], power); });
	}

	void cancelling()
	{
		const int h = std::max(1, k / 4);
		const double down = r.two(-36, 0);
		for (int l = 0; l < k; l++) {
			for (int i = 0; i < m; i++)
				made.atA(i, l) = l < h ? r.heavy(1) : l < 2 * h ? made.atA(i, l - h) : r.heavy(1) * down;
			for (int j = 0; j < n; j++)
				made.atB(l, j) = l < h || l >= 2 * h ? r.heavy(1) : -made.atB(l - h, j);
		}
	}

	void coherent()
	{
		const int large = r.whole(1, std::max(2, k / 8));
		const double up = r.uniform(10, 34), down = r.uniform(0, up);
		fillA([&](int, int l) { return l < large ? r.gaussian() * std::exp2(up) : r.uniform(.1, 1.1); });
		fillB([&](int l, int) { return l < large ? r.gaussian() * std::exp2(-down) : r.uniform(.1, 1.1); });
	}

	void extremes()
	{
		const double down = r.ten(-44, -36);
		fillA([&](int, int) { return isOther ? r.ten(-37.9, 38) : r.gaussian() * down; });
		fillB([&](int, int) { return isOther ? r.ten(-44, -8) : r.gaussian() * 1e30; });
	}

	void outlier()
	{
		const int column = r.whole(0, k);
		made.atA(r.whole(0, m), column) = r.ten(2, 12);
		const double down = isOther ? r.ten(-12, 0) : 1;
		for (int j = 0; j < n; j++)
			made.atB(column, j) *= down;
	}

	void low_k()
	{
		const double s = r.uniform(0, 8), t = r.uniform(0, 8);
		const auto rows = each(k, [&] { return std::exp2(r.whole(-20, 20)); });
		fillA([&](int, int) { return r.heavy(s); });
		fillB([&](int l, int) { return r.heavy(t) * rows[l]; });
	}

	void ids()
	{
		const int count = std::min(k, r.whole(1, 4));
		const double unit = std::exp2(r.whole(0, 40)), down = r.two(-50, 0);
		fillA([&](int, int l) { return l < count ? r.whole(1, 1 << 11) * unit : r.uniform(0, 1); });
		fillB([&](int l, int) { return r.gaussian() * (l >= count ? 1 : r.uniform(0, 1) < .3 ? down : 0); });
	}

	bool isTransposed() const { return isFlipped; }

private:
	template <typename Value>
	void fillA(Value value)
	{
		for (int i = 0; i < m; i++)
			for (int l = 0; l < k; l++)
				made.atA(i, l) = value(i, l);
	}
	template <typename Value>
	void fillB(Value value)
	{
		for (int l = 0; l < k; l++)
			for (int j = 0; j < n; j++)
				made.atB(l, j) = value(l, j);
	}
	template <typename Value>
	static std::vector<double> each(int count, Value value)
	{
		std::vector<double> values;
		for (int i = 0; i < count; i++)
			values.push_back(value());
		return values;
	}

	Draw &r;
	Operands &made;
	const int m, n, k;
	const bool isFlipped, isOther; // choices of the families
};

constexpr struct {
	const char *name;
	void (Family::*fill)();
} families[] = {
    {"dense", &Family::dense},
    {"lognormal", &Family::lognormal},
    {"cauchy", &Family::cauchy},
    {"row_units", &Family::row_units},
    {"few_rows", &Family::few_rows},
    {"crossed", &Family::crossed},
    {"signs_search", &Family::signs_search},
    {"feature", &Family::feature},
    {"sentinel", &Family::sentinel},
    {"llm", &Family::llm},
    {"softmax", &Family::softmax},
    {"mask", &Family::mask},
    {"gradient", &Family::gradient},
    {"one_hot", &Family::one_hot},
    {"permutation", &Family::permutation},
    {"pruned", &Family::pruned},
    {"rank_one", &Family::rank_one},
    {"banded", &Family::banded},
    {"classics", &Family::classics},
    {"financial", &Family::financial},
    {"cancelling", &Family::cancelling},
    {"coherent", &Family::coherent},
    {"extremes", &Family::extremes},
    {"outlier", &Family::outlier},
    {"low_k", &Family::low_k},
    {"ids", &Family::ids},
};

inline Operands drawn(const std::string &family, uint64_t seed)
{
	Draw r(seed * 1000003 + hash(family.data(), family.size()));
	const int sizes[] = {16, 64, 128}, depths[] = {32, 128, 256};
	const int m = sizes[r.whole(0, 3)], n = sizes[r.whole(0, 3)];
	const int k = family == "low_k" ? r.whole(1, 6) : depths[r.whole(0, 3)];
	Operands made(m, n, k);
	Family fillers(r, made);
	for (const auto &[name, fill] : families)
		if (family == name)
			(fillers.*fill)();
	for (std::vector<double> *const values : {&made.a, &made.b})
		for (double &x : *values)
			x = static_cast<double>(static_cast<float>(std::clamp(x, -3.4028234e38, 3.4028234e38)));
	if (!fillers.isTransposed()) // either operand may be the one that loses
		return made;
	Operands transposed(n, m, k);
	for (int l = 0; l < k; l++) {
		for (int i = 0; i < m; i++)
			transposed.atB(l, i) = made.atA(i, l);
		for (int j = 0; j < n; j++)
			transposed.atA(j, l) = made.atB(l, j);
	}
	return transposed;
}

} // namespace client
