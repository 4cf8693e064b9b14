#include "src/config/rules.h"

#include "src/config/option_values.h"
#include "src/lists/glob.h"
#include "src/lists/lists.h"
#include "src/lists/nearest.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace autoamp::policy {

namespace {

constexpr MatcherRow table[] = {
#define X(name, help) {#name, help},
    AUTOAMP_MATCHERS(X)
#undef X
};
static_assert(std::size(table) == matcherCount);

constexpr op::Dtype precisions[] = {op::Dtype::float32, op::Dtype::float16, op::Dtype::bfloat16, op::Dtype::tf32};
constexpr const char *precisionKey = "precision", *weightsKey = "weights";

// A whole number: 256, 1e9.
bool readNumber(std::string_view text, double &number)
{
	if (text.empty() || text.find_first_not_of("0123456789e") != text.npos)
		return false;
	const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
	return error == std::errc() && end == text.data() + text.size() && number == std::floor(number);
}

// 256, >=256, >256, <=64, <64, 128..4096
bool readNumbers(std::string_view text, Range &range)
{
	double number = 0;
	if (const size_t dots = text.find(".."); dots != text.npos)
		return readNumber(text.substr(0, dots), range.low) && readNumber(text.substr(dots + 2), range.high);
	const size_t sign = std::min(text.find_first_not_of("<>="), text.size());
	const std::string_view relation = text.substr(0, sign);
	if (!readNumber(text.substr(sign), number))
		return false;
	if (relation == ">=" || relation == ">")
		range.low = number + (relation == ">");
	else if (relation == "<=" || relation == "<")
		range.high = number - (relation == "<");
	else
		range.low = range.high = number;
	return relation.size() < 2 ? relation != "=" : relation == ">=" || relation == "<=";
}

// The value of a condition. For the device also cpu, which no range of GPU numbers contains.
bool readRange(Matcher matcher, std::string_view text, Range &range)
{
	if (matcher != Matcher::device)
		return readNumbers(text, range);
	if (text == "cpu")
		range = {op::cpuDevice, op::cpuDevice};
	else if (readNumbers(text, range))
		range.high = std::min(range.high, op::cpuDevice - 1.);
	else
		return false;
	return true;
}

double numberOf(const op::Op &op, Matcher matcher)
{
	switch (matcher) {
	case Matcher::m:
		return static_cast<double>(op.m);
	case Matcher::n:
		return static_cast<double>(op.n);
	case Matcher::k:
		return static_cast<double>(op.k);
	case Matcher::batch:
		return op.batch;
	case Matcher::flops:
		return flops(op);
	default:
		return op.device;
	}
}

// Finds or adds a pattern; `bit` is its index. Returns false if there are too many.
bool place(std::vector<std::string> &patterns, size_t most, const std::string &pattern, uint8_t &bit)
{
	const auto found = std::find(patterns.begin(), patterns.end(), pattern);
	bit = static_cast<uint8_t>(found - patterns.begin());
	if (found == patterns.end() && patterns.size() < most)
		patterns.push_back(pattern);
	return bit < patterns.size();
}

// The rows of all ops that match the pattern: ops of the chosen list system, or of any system if the pattern has a
// prefix.
uint64_t opsLike(const std::string &pattern, Lists chosen)
{
	uint64_t rows = 0;
	const size_t colon = pattern.find(':');
	const std::string_view prefix = std::string_view(pattern).substr(0, colon == pattern.npos ? 0 : colon + 1);
	const std::string_view name = std::string_view(pattern).substr(prefix.size());
	for (unsigned i = 0; i < listsCount; ++i) {
		const auto system = static_cast<Lists>(i);
		const std::string_view op = withoutModule(system, name);
		const bool isMeant = prefix.empty() && system == chosen;
		for (const std::string_view each : opsOf(system))
			if ((isMeant && matches(op, each)) ||
			    matches(std::string(prefix).append(op),
			            std::string(listSystem(system).prefix) + ":" + std::string(each)))
				rows |= rowsOf(system, each);
	}
	return rows;
}

// True only if `general` matches everything that `special` matches.
bool covers(const std::string &general, const std::string &special)
{
	const bool isPlain = general.find('?') == general.npos || special.find('*') == special.npos;
	return general == special || (isPlain && matches(general, special));
}

// Rows that a rule may decide about; `none` is not among them.
constexpr uint64_t products = (uint64_t{2} << static_cast<unsigned>(op::lastProduct)) - 2;

// True if an entry point that the rule matches computes a product that the rule matches.
bool meansProduct(const Rule &rule, std::span<const char *const> entries)
{
	const uint64_t wanted = rule.asks(Matcher::op) ? rule.ops & products : products;
	for (size_t entry = 0; entry < entries.size(); ++entry)
		if (rule.entries[entry / 64] >> entry % 64 & 1u)
			for (const CallRow *row : rowsAt(entries[entry])) {
				const auto kind = static_cast<op::Kind>(row - callRows().data());
				const bool mayBeOne = kind == op::Kind::bmm && (wanted >> static_cast<unsigned>(op::Kind::mm) & 1u);
				if (mayBeOne || (wanted >> static_cast<unsigned>(kind) & 1u)) // a batched call with batch 1 is an mm
					return true;
			}
	return false;
}

bool isOnCpu(std::string_view entry)
{
	return !entry.starts_with("cublas") && !entry.starts_with("cudnn");
}

// Removes the entry points of the other type of device, and an op that no routine of a CPU BLAS computes.
void keepThoseOfDevice(Rule &rule, std::span<const char *const> entries)
{
	const bool wantsCpu = rule.range[static_cast<size_t>(Matcher::device)].low == op::cpuDevice;
	Rule ofDevice = rule;
	ofDevice.entries.assign((entries.size() + 63) / 64, 0);
	for (size_t entry = 0; entry < entries.size(); ++entry)
		ofDevice.entries[entry / 64] |= uint64_t{isOnCpu(entries[entry]) == wantsCpu} << entry % 64;
	if (wantsCpu && rule.asks(Matcher::op) && !meansProduct(ofDevice, entries))
		rule.ops = 0;
	for (size_t word = 0; word < rule.entries.size(); ++word)
		rule.entries[word] &= ofDevice.entries[word];
}

bool isPart(const std::vector<uint64_t> &part, const std::vector<uint64_t> &whole)
{
	for (size_t word = 0; word < part.size(); ++word)
		if (part[word] & ~(word < whole.size() ? whole[word] : 0))
			return false;
	return true;
}

// True if condition `i` of the rule holds for every call that a rule may decide about.
bool isMetByAll(const Rule &rule, size_t i)
{
	if (i == static_cast<size_t>(Matcher::op))
		return !(products & ~rule.ops);
	if (i == static_cast<size_t>(Matcher::region)) // not true outside of all regions
		return false;
	return i < globCount ? rule.asked[i].find_first_not_of('*') == rule.asked[i].npos
	                     : rule.range[i].low <= 0 && rule.range[i].high > std::numeric_limits<double>::max();
}

// True if `first` matches everything that `second` matches, except for the condition `ignored`.
bool shadows(const Rule &first, const Rule &second, size_t ignored = matcherCount)
{
	for (size_t i = 0; i < matcherCount; ++i) {
		if (first.asked[i].empty() || i == ignored || isMetByAll(first, i))
			continue;
		if (second.asked[i].empty())
			return false;
		const bool isWider =
		    i == static_cast<size_t>(Matcher::entry) ? isPart(second.entries, first.entries)
		    : i == static_cast<size_t>(Matcher::op)  ? !(second.ops & ~first.ops)
		    : i < globCount                          ? covers(first.asked[i], second.asked[i])
		                    : first.range[i].low <= second.range[i].low && second.range[i].high <= first.range[i].high;
		if (!isWider)
			return false;
	}
	return true;
}

// True if several earlier rules that differ in one range together match everything that `rule` matches.
bool areShadowing(std::span<const Rule *const> earlier, const Rule &rule, size_t matcher)
{
	const double last = std::min(rule.range[matcher].high, std::numeric_limits<double>::max());
	double next = rule.range[matcher].low; // the smallest number that no earlier rule covers
	for (bool isMoving = true; isMoving && next <= last;) {
		isMoving = false;
		for (const Rule *other : earlier)
			if (const Range &range = other->range[matcher];
			    range.low <= next && range.high >= next && shadows(*other, rule, matcher)) {
				next = std::max(range.high + 1, std::nextafter(range.high, std::numeric_limits<double>::infinity()));
				isMoving = true;
			}
	}
	return next > last;
}

bool decidesPrecision(const Rule &rule)
{
	return rule.precision != op::Dtype::none;
}

bool decidesWeights(const Rule &rule)
{
	return rule.weights.has_value();
}

// The reason why earlier rules decide all that `rule` decides, for each of its calls; empty: they do not.
std::string whyTaken(std::span<const Rule> before, const Rule &rule)
{
	std::string why;
	for (const auto decides : {decidesPrecision, decidesWeights}) {
		if (!decides(rule))
			continue;
		std::vector<const Rule *> earlier;
		for (const Rule &other : before)
			if (decides(other))
				earlier.push_back(&other);
		const auto sole =
		    std::find_if(earlier.begin(), earlier.end(), [&](const Rule *other) { return shadows(*other, rule); });
		bool isTaken = sole != earlier.end();
		const std::string taken =
		    isTaken ? "the rule at " + (*sole)->place + " matches all its calls" : "earlier rules match all its calls";
		for (size_t i = globCount; i < matcherCount; ++i)
			isTaken |= areShadowing(earlier, rule, i);
		if (!isTaken)
			return {};
		why = why.empty() || why == taken ? taken : "earlier rules match all its calls";
	}
	return why;
}

// The reason why the rule by itself cannot match any call; empty: it can.
std::string whyNever(const Rule &rule)
{
	const auto is = [&](Matcher matcher, const std::string &what) {
		const auto i = static_cast<size_t>(matcher);
		return std::string(table[i].name) + " = " + quoted(rule.asked[i]) + " " + what;
	};
	const std::string onDevice = rule.asks(Matcher::device) ? " on that device" : "";
	if (rule.asks(Matcher::entry) &&
	    std::all_of(rule.entries.begin(), rule.entries.end(), [](uint64_t word) { return !word; }))
		return is(Matcher::entry, (rule.asks(Matcher::op) ? "matches no entry point of a product with that op"
		                                                  : "matches no entry point of a product") +
		                              onDevice + rule.hint);
	if (rule.asks(Matcher::op) && !(rule.ops & products))
		return is(Matcher::op, "reaches no product that autoamp intercepts" + onDevice + rule.hint);
	if (rule.asked[static_cast<size_t>(Matcher::caller)].find('/') != std::string::npos)
		return is(Matcher::caller, "contains a folder; only file names are compared");
	const std::string &thread = rule.asked[static_cast<size_t>(Matcher::thread)];
	if (thread.size() - static_cast<size_t>(std::count(thread.begin(), thread.end(), '*')) > 15)
		return is(Matcher::thread, "is longer than 15 bytes, the maximum of a thread name");
	for (size_t i = globCount; i < matcherCount; ++i)
		if (!(rule.range[i].low <= rule.range[i].high))
			return is(static_cast<Matcher>(i), "is an empty range");
	double least = 2, most = 2;
	for (const Matcher matcher : {Matcher::m, Matcher::n, Matcher::k, Matcher::batch}) {
		const auto &[low, high] = rule.range[static_cast<size_t>(matcher)];
		least *= matcher == Matcher::batch ? std::max(low, 1.0) : low;
		most *= high;
	}
	if (const Range &flops = rule.range[static_cast<size_t>(Matcher::flops)]; least > flops.high || most < flops.low)
		return is(Matcher::flops, "is not the work of products of these sizes");
	return {};
}

} // namespace

std::span<const MatcherRow> matcherTable()
{
	return table;
}

bool Rule::matches(const op::Op &op, const Where &where) const
{
	if (asks(Matcher::entry) && !(op.entry / 64u < entries.size() && (entries[op.entry / 64u] >> op.entry % 64u & 1u)))
		return false;
	if (asks(Matcher::op) && !(ops >> static_cast<unsigned>(op.kind) & 1u))
		return false;
	if (asks(Matcher::caller) && !policy::matches(asked[static_cast<size_t>(Matcher::caller)], where.caller))
		return false;
	if (asks(Matcher::region) && !(where.regions >> region & 1u))
		return false;
	if (asks(Matcher::thread) && !(where.threads >> thread & 1u))
		return false;
	for (size_t i = globCount; i < matcherCount; ++i)
		if (!asked[i].empty() && !range[i].has(numberOf(op, static_cast<Matcher>(i))))
			return false;
	return true;
}

std::string textOf(const Rule &rule)
{
	std::string text;
	for (size_t i = 0; i < matcherCount; ++i)
		if (!rule.asked[i].empty())
			text += std::string(table[i].name) + " = " + quoted(rule.asked[i]) + ", ";
	const bool hasPrecision = rule.precision != op::Dtype::none;
	if (hasPrecision)
		text += precisionKey + (" = " + quoted(op::name(rule.precision)));
	if (rule.weights)
		text += (hasPrecision ? ", " : "") + std::string(weightsKey) + " = " + quoted(name(*rule.weights));
	return text;
}

RulesOfCall Rules::find(const op::Op &op, const Where &where) const
{
	RulesOfCall found;
	for (const Rule &rule : list) {
		const bool isPrecision = !found.precision && rule.precision != op::Dtype::none;
		const bool isWeights = !found.weights && rule.weights;
		if ((!isPrecision && !isWeights) || !rule.matches(op, where))
			continue;
		found.precision = isPrecision ? &rule : found.precision;
		found.weights = isWeights ? &rule : found.weights;
		if (found.precision && found.weights)
			break;
	}
	return found;
}

std::string Rules::add(const Table &from, Lists lists, std::span<const char *const> entries)
{
	Rule rule;
	rule.place = from.place;
	for (const Setting &setting : from.settings) {
		const std::string head = setting.place + ": " + shown(setting.key) + "=" + shown(setting.value) + ": ";
		if (setting.isElement)
			return head + "a rule asks for one value";
		if (setting.key == precisionKey) {
			const auto found = std::find_if(std::begin(precisions), std::end(precisions),
			                                [&](op::Dtype type) { return setting.value == op::name(type); });
			if (found == std::end(precisions))
				return head + "bad value; accepted: float32, float16, bfloat16, tf32";
			rule.precision = *found;
			continue;
		}
		if (setting.key == weightsKey) {
			const int found = valueIndex(weightsValues, setting.value);
			if (found < 0)
				return head + "bad value; accepted: off, checked, watched, frozen";
			rule.weights = static_cast<Weights>(found);
			continue;
		}
		const auto *row = std::find_if(std::begin(table), std::end(table),
		                               [&](const MatcherRow &each) { return setting.key == each.name; });
		if (row == std::end(table)) {
			std::vector<const char *> names = {precisionKey, weightsKey};
			for (const MatcherRow &each : table)
				names.push_back(each.name);
			return setting.keyPlace + ": " + shown(setting.key) + ": no such key of a rule" +
			       nearestHint(setting.key, names, "; autoamp help rules lists them");
		}
		const auto index = static_cast<size_t>(row - table);
		if (setting.value.empty())
			return head + "bad value; accepted: a pattern";
		rule.asked[index] = setting.value;
		const auto matcher = static_cast<Matcher>(index);
		if (index >= globCount && !readRange(matcher, setting.value, rule.range[index]))
			return head + "bad value; accepted: 256, \">=256\", \">256\", \"<=64\", \"<64\", \"128..4096\"" +
			       (matcher == Matcher::device ? ", \"cpu\"" : "");
		switch (matcher) {
		case Matcher::entry:
			rule.entries.resize((entries.size() + 63) / 64);
			for (size_t entry = 0; entry < entries.size(); ++entry)
				rule.entries[entry / 64] |= uint64_t{matchesEntry(setting.value, entries[entry])} << entry % 64;
			if (std::none_of(rule.entries.begin(), rule.entries.end(), [](uint64_t word) { return word; }))
				rule.hint = nearestHint(setting.value, entries, "");
			break;
		case Matcher::op:
			rule.ops = opsLike(setting.value, lists);
			if (!rule.ops)
				rule.hint = nearestHint(setting.value, opsOf(lists), "");
			break;
		case Matcher::region:
			if (!place(regionPatterns, mostRegions, setting.value, rule.region))
				return head + "more than " + std::to_string(mostRegions) + " different patterns";
			break;
		case Matcher::thread:
			if (!place(threadPatterns, mostThreads, setting.value, rule.thread))
				return head + "more than " + std::to_string(mostThreads) + " different patterns";
			break;
		default:
			break;
		}
	}
	if (rule.precision == op::Dtype::none && !rule.weights)
		return from.place +
		       ": a rule without precision or weights; accepted for precision: float32, float16, bfloat16, tf32";
	if (rule.asks(Matcher::device))
		keepThoseOfDevice(rule, entries);
	if (rule.asks(Matcher::entry) && !meansProduct(rule, entries))
		std::fill(rule.entries.begin(), rule.entries.end(), 0);
	list.push_back(std::move(rule));
	return {};
}

std::vector<std::string> Rules::warnings() const
{
	std::vector<std::string> lines;
	for (const Rule &rule : list) {
		std::string why = whyNever(rule);
		if (why.empty())
			why = whyTaken(std::span(list.data(), &rule), rule);
		if (!why.empty())
			lines.push_back(rule.place + ": the rule never matches: " + why);
		else if (rule.asked[static_cast<size_t>(Matcher::device)] == "cpu" &&
		         (rule.precision == op::Dtype::tf32 || rule.precision == op::Dtype::float16))
			lines.push_back(rule.place + ": a CPU lowers calls to bfloat16 only; the rule keeps them unchanged");
	}
	return lines;
}

uint64_t bitsOf(std::span<const std::string> patterns, std::string_view name)
{
	uint64_t bits = 0;
	for (size_t i = 0; i < patterns.size(); ++i)
		bits |= uint64_t{matches(patterns[i], name)} << i;
	return bits;
}

} // namespace autoamp::policy
