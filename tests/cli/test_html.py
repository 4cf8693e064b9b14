"""HTML pages of `report` and `diff` in a real browser: legible, usable by keyboard, without errors or network access."""
import base64
import hashlib
import html.parser
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from case import EMULATED, TRACED, Case

try:
    from playwright.sync_api import sync_playwright
except ImportError:
    sync_playwright = None
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
CHECKS = (pathlib.Path(__file__).parent / "page_checks.js").read_text()
PICTURES = os.environ.get("PICTURES")  # a folder for screenshots


# Numbers all controls that are shown, and returns how many they are.
NUMBER_CONTROLS = """() => {
    const list = [...document.querySelectorAll("a[href], button, input, summary, [tabindex='0']")].filter(each => each.checkVisibility());
    list.forEach((each, i) => { each.dataset.control = i; });
    return list.length;
}"""
# The number of the control with the focus, and a text if something covers it or it is outside of the window.
FOCUSED = """async () => {
    for (let frames = 0; frames < 2; frames++) await new Promise(requestAnimationFrame); // until boxes have scrolled
    const control = document.activeElement, box = control.getBoundingClientRect();
    if (control === document.body) return [null, ""];
    const middle = (from, to, end) => (Math.max(from, 0) + Math.min(to, end)) / 2;
    const top = document.elementFromPoint(middle(box.left, box.right, innerWidth), middle(box.top, box.bottom, innerHeight));
    const isSeen = control.contains(top) || control.labels?.[0]?.contains(top);
    return [control.dataset.control, isSeen ? "" : `${control.textContent || control.type}: ${top?.outerHTML.slice(0, 60)}`];
}"""
# Roles whose elements need a name, and how often a page has each landmark.
NAMED = {"button", "checkbox", "columnheader", "DisclosureTriangle", "heading", "image", "link", "navigation", "region",
         "rowheader", "searchbox", "table"}
LANDMARKS = {"main": 1, "banner": 1, "contentinfo": 1}


def spoken(page):
    """The accessibility tree of Chromium, which screen readers get: role, name, properties, and the children by number."""
    session = page.context.new_cdp_session(page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    session.detach()
    return {node["nodeId"]: {"role": node.get("role", {}).get("value", ""), "name": node.get("name", {}).get("value", ""),
                             "children": node.get("childIds", []), "isIgnored": node["ignored"],
                             **{each["name"]: each["value"].get("value") for each in node.get("properties", [])}}
            for node in nodes}


def below(tree, node, role):
    """The nodes of a role below a node."""
    for child in (tree[number] for number in node["children"] if number in tree):
        if child["role"] == role and not child["isIgnored"]:
            yield child
        yield from below(tree, child, role)


def unspoken(page):
    """Faults of the accessibility tree of a page."""
    tree = spoken(page)
    nodes, faults = [node for node in tree.values() if not node["isIgnored"]], []
    for node in nodes:
        role, name = node["role"], node["name"]
        if (role in NAMED or node.get("focusable")) and not re.search(r"\w", name):
            faults.append(f"{role} without a name")
        if re.search("[\u2190-\u21ff\u25a0-\u25ff]", name) and role in ("button", "columnheader"):
            faults.append(f"{role} whose name has an arrow: {name}")
        if node.get("focusable") and role in ("generic", "none", "paragraph"):
            faults.append(f"focusable element without a role: {name}")
    roles = [node["role"] for node in nodes]
    faults += [f"{roles.count(role)} of the landmark {role}" for role, count in LANDMARKS.items() if roles.count(role) != count]
    levels = [int(node["level"]) for node in nodes if node["role"] == "heading"]
    faults += [f"heading of level {level} after {before}" for before, level in zip([0, *levels], levels) if level > before + 1]
    if levels.count(1) != 1:
        faults.append(f"{levels.count(1)} headings of level 1")
    for table in (node for node in nodes if node["role"] == "table"):
        rows = list(below(tree, table, "row"))
        for row in rows:
            heads = [*below(tree, row, "rowheader"), *below(tree, row, "columnheader")]
            cells = [*below(tree, row, "cell"), *below(tree, row, "gridcell")]
            if not heads:
                faults.append(f"row {rows.index(row)} of the table {table['name']} has no header, and {len(cells)} cells")
        if not rows:
            faults.append(f"no rows in the table {table['name']}")
    return sorted(set(faults))


class Parts(html.parser.HTMLParser):
    """Elements and attributes of a page; all elements except void ones must be closed in order."""
    VOID = {"meta", "input", "br"}

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.texts = [], [], [], {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attributes]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attributes]

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> in {self.open}"
        self.open.pop()

    def handle_data(self, data):
        if self.open:
            self.texts[self.open[-1]] = self.texts.get(self.open[-1], "") + data


class Pages(Case):
    def page_of(self, *arguments, command="report", **variables):
        result = self.autoamp(command, "--format", "html", *arguments, **variables)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        (self.here / "page.html").write_text(result.stdout)
        return result.stdout

    def many(self):
        """Twelve processes; that of rank 5 has twice the work."""
        for rank in range(12):
            subprocess.run([TRACED, "signatures", "80" if rank == 5 else "40"], cwd=self.here, timeout=60, check=True,
                           env={"AUTOAMP_TRACE_FILE": f"ranks/r{rank}.aat", "OMPI_COMM_WORLD_RANK": str(rank)})
        return "ranks"


class Html(Pages):
    def test_one_file_that_needs_nothing(self):
        text = self.page_of(self.trace("mixed"), self.trace("kernels", "k.aat", "1000"), self.trace("gradient", None, "130"))
        self.assertNotRegex(text, r"https?://|src=|@import|url\(|style=|unsafe-inline| on[a-z]+=")
        parts = Parts(text)
        self.assertEqual((parts.open, parts.tags.count("script"), parts.tags.count("style")), ([], 1, 1))
        for kind, tag in (("script-src", "script"), ("style-src", "style")):
            digest = base64.b64encode(hashlib.sha256(parts.texts[tag].encode()).digest()).decode()
            self.assertIn(f"{kind} 'sha256-{digest}';", text)
        self.assertIn("default-src 'none'", text)
        self.assertIn(EMULATED, text)

    def test_numbers_are_those_of_the_json_report(self):
        name = self.trace("signatures", None, "40")
        report = self.json(name)
        gain, text = report["totals"]["gain"], self.page_of(name)
        for field in ("as_asked_ns", "as_run_ns", "best_ns"):
            self.assertIn(f"<b>{gain[field] / 1000:.1f} µs</b>", text)
        self.assertIn(f"{gain['as_asked_ns'] / gain['as_run_ns']:.2f}× faster", text)
        shown = dict(re.findall(r"<th scope=\"rowgroup\" colspan=\"3\">(\w+) <small>.*?<b>([\d.]+ µs)</b>", text, re.S))
        self.assertEqual({op: value for op, value in shown.items() if op != "All"},
                         {row["op"]: f"{row['as_asked_ns'] / 1000:.1f} µs" for row in gain["by_op"]})
        for field in ("title", "command"):
            self.assertIn(report["next"][field].lower()[1:].replace("&", "&amp;").replace("'", "&#39;").replace('"', "&quot;"), text.lower())

    def test_each_source_of_times_has_its_name(self):
        self.assertIn(">model, nothing was timed</span>", self.page_of(self.trace("mixed")))
        text = self.page_of(self.trace("kernels", "k.aat", "1000"))
        self.assertIn(">model</span>", text)
        self.assertRegex(text, r"Measured as run: <b>130 µs</b> in kernels")
        self.assertIn(">measured, 24 of 300 lowered calls</span>", self.page_of(self.trace("cpu", None, "24")))
        self.assertRegex(self.page_of("cpu.aat"), r">1\.\d\d× faster</p>")

    def test_where_the_time_goes_as_in_the_summary(self):
        for name in (self.trace("signatures", None, "40"), self.trace("kernels", "k.aat", "1000"), self.trace("mixed"), self.trace("cpu", None, "24")):
            summary = self.autoamp("report", name).stdout
            shapes = re.findall(r"(\w+ \S+) ([\d.]+ %)", re.search(r"\nmost time: (.*)\n", summary).group(1))
            card = self.page_of(name).partition("Where does fp32 time go?")[2].partition("</ol>")[0]
            self.assertEqual([(shape, part.replace("\u202f", " ")) for shape, part in re.findall(r"<li><span>(.*?)</span><span>(.*?)</span>", card)], shapes)
            source = re.search(r"fp32 products +(time \(\w+\)) ", summary).group(1)
            self.assertIn(f">{source}</span>", card)

    def test_unchanged_calls_have_their_reason(self):
        text = self.page_of(self.trace("observed"))
        self.assertIn("level O0 (changes no call), ", text)
        self.assertIn("100.0 % of the time is in calls that run unchanged, because level O0 changes no call.", text.replace("\u202f", " "))
        self.assertIn("<code>too_small</code>: too little work", self.page_of(self.trace("mixed")))
        self.assertRegex(text, r"The fp32 products take 120 µs unchanged, 120 µs as run, and 105 µs \(1.14×\) with the best strategy.")

    def test_the_reason_for_tf32(self):
        self.assertIn("; some calls ran in TF32: the cost model predicts it to be faster", self.page_of(self.trace("costs", "tf32.aat", "5")))
        self.assertNotIn("TF32", self.page_of(self.trace("mixed")))

    def test_hostile_texts_stay_texts(self):
        name = "a\"b'<img src=x onerror=alert(0)>.aat"
        program = self.here / "<b>\"'`x&lt;"
        shutil.copy(TRACED, program)
        subprocess.run([program, "hostile_kernels"], cwd=self.here, env={"AUTOAMP_TRACE_FILE": name}, timeout=60, check=True)
        for text in (self.page_of(name), self.page_of(name, name, "--all", command="diff"),
                     self.page_of("--by", "region", "--by", "region", name)):
            parts = Parts(text)
            self.assertEqual((parts.tags.count("script"), parts.tags.count("style")), (1, 1))
            self.assertEqual(set(parts.tags) & {"img", "b" if "<b>\"" in text else "iframe"}, set())
            self.assertEqual([name for name in parts.attributes if name.startswith("on")], [])
        text = self.page_of(name)
        self.assertIn("&lt;/script&gt;&lt;script&gt;alert(&#39;3&#39;)&lt;/script&gt;", text)
        self.assertIn("&lt;/style&gt;&lt;b title=", text)
        self.assertIn("autoamp report: &lt;b&gt;&quot;&#39;", text)

    def test_curves_have_names_instead_of_hashes(self):
        text = self.page_of(self.trace("faults"), self.trace("gradient", None, "130"), self.trace("findings"))
        charts = re.findall(r"<figcaption><b>([^<]+)</b>.*?aria-label=\"([^\"]+)\"", text, re.S)
        scales = [(title, says) for title, says in charts if "Scale" in says]
        self.assertNotRegex(str(scales), r"\b[0-9a-f]{8}\b|nan|inf\b")
        self.assertIn("mm TN 1024×1024×1024, operand A", [title for title, _ in scales])
        torch = dict(scales)["Gradient scaler torch#0"]
        self.assertRegex(torch, r"130 steps, 6 skipped, .*first 2\^16, least 2\^10, most 2\^36, last 2\^35")
        self.assertEqual(sum(title.startswith("Gradient") for title, _ in scales), 8)  # the most frequent events
        self.assertRegex(text, r"and \d more curves?<")
        self.assertNotIn("Gradient scalers of the program", self.page_of(self.trace("mixed")))

    def test_empty_pages_say_why(self):
        text = self.page_of(self.trace("outside"))
        self.assertIn("No library call was intercepted", text)
        for absent in ('id="sigs"', 'id="timeline"', 'class="chart"', "nan"):
            self.assertNotIn(absent, text)
        self.assertIn("Nothing to lower: none of 7 calls is an fp32 product", self.page_of(self.trace("low")))
        self.assertIn("1.14× possible", self.page_of(self.trace("observed")))
        self.assertIn("slower than unchanged", self.page_of(self.trace("cpu_slower")))
        self.assertIn("Data is missing", self.page_of(self.trace("lossy_kernels", None, "1000")))
        self.assertIn("ended inside cublasSgemm_v2", self.page_of(self.trace("killed")))

    def test_size_has_a_limit(self):
        few, many = (len(self.page_of(self.trace("many", f"{number}.aat", str(number)))) for number in (20000, 1000000))
        self.assertLess(many, few + 20000)
        text = self.page_of(self.trace("signatures", None, "10000"))
        self.assertLess(len(text.encode()), 1e6)
        self.assertRegex(text, r"and 9,500 more rows, \d+\.\d % of the time; <code>--format csv</code>")

    def test_processes(self):
        text = self.page_of(self.many())
        rows = re.findall(r"<tr><th scope=\"row\">rank (\d+), .*?</tr>", text[text.index('id="processes-list"'):text.index("</section>", text.index('id="processes-list"'))], re.S)
        self.assertEqual((rows[0], len(rows)), ("5", 12))
        self.assertEqual(len(re.findall(r"% slower than the median", text)), 1)
        self.assertEqual(text.count("<summary>Timeline of rank"), 8)


@unittest.skipUnless(sync_playwright and CHROMIUM, "no Chromium, or no Python package playwright")
class InABrowser(Pages):
    @classmethod
    def setUpClass(cls):
        cls.play = sync_playwright().start()
        cls.browser = cls.play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.play.stop()

    def open(self, **options):
        """The page in a window. Its messages and requests are checked at the end of the test."""
        page = self.browser.new_page(**options)
        said, asked = [], []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"file://{self.here}/page.html")
        self.addCleanup(page.close)
        self.addCleanup(lambda: self.assertEqual((said, [url for url in asked if not url.startswith("file://")]), ([], [])))
        return page

    def look(self, name, widths=(1400, 800, 390)):
        for scheme in ("light", "dark"):
            page = self.open(color_scheme=scheme)
            for width in widths:
                page.set_viewport_size({"width": width, "height": 1000})
                with self.subTest(page=name, scheme=scheme, width=width):
                    self.assertEqual(page.evaluate(CHECKS), [])
                    if scheme == "light":
                        self.assertEqual(unspoken(page), [])
                if PICTURES:
                    page.screenshot(path=f"{PICTURES}/{name}-{scheme}-{width}.png", full_page=True)
            page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
            self.assertEqual(page.evaluate(CHECKS), [], f"{name} with details")
        self.assertNotEqual(page.evaluate("getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)")

    def test_pages_are_legible(self):
        pages = {"rich": [self.trace("faults"), self.trace("kernels", "k.aat", "1000"), self.trace("gradient", None, "130")],
                 "model": [self.trace("signatures", None, "40")], "cpu": [self.trace("cpu", None, "24")],
                 "empty": [self.trace("outside")], "low": [self.trace("low")], "observed": [self.trace("observed")],
                 "lossy": [self.trace("lossy_kernels", None, "1000")], "ranks": [self.many()]}
        for name, traces in pages.items():
            self.page_of(*traces)
            self.look(name)

    def test_a_large_page_is_legible(self):
        self.page_of(self.trace("signatures", None, "10000"))
        self.look("large", (390,))

    def test_a_diff_is_legible(self):
        self.page_of(self.trace("observed"), self.trace("mixed"), command="diff")
        self.look("diff")

    def test_the_checks_find_faults(self):
        self.page_of(self.trace("mixed"))
        for style, fault in (("p{font-size:10px}", "small: 10px"), ("h1{color:#999}", "contrast 2"), ("p{margin-top:-1rem}", "overlap"),
                             ("main{width:120vw}", "wider than the screen")):
            page = self.browser.new_page(bypass_csp=True, viewport={"width": 800, "height": 1000})
            page.goto(f"file://{self.here}/page.html")
            page.add_style_tag(content=style)
            self.assertIn(fault, " ".join(page.evaluate(CHECKS)))
            page.close()

    def test_sort_and_filter(self):
        self.page_of(self.trace("signatures", None, "40"))
        page = self.open(viewport={"width": 1200, "height": 900})
        cells = lambda at: page.eval_on_selector_all("#signatures tbody tr:not([hidden])", f"rows => rows.map(row => row.cells[{at}].dataset.v || row.cells[{at}].textContent)")
        heads = page.locator("#signatures thead th")
        names = heads.all_text_contents()
        shape, unchanged = names.index("Shape"), names.index("Unchanged")
        heads.nth(shape).locator("button").click()
        first = [int(re.match(r"\d+", cell)[0]) for cell in cells(shape)]
        self.assertEqual((first, heads.nth(shape).get_attribute("aria-sort")), (list(range(1, 41)), "ascending"))
        heads.nth(unchanged).locator("button").click()
        numbers = [float(cell) for cell in cells(unchanged)]
        self.assertEqual((numbers, heads.nth(shape).get_attribute("aria-sort")), (sorted(numbers, reverse=True), "none"))
        page.keyboard.press("Enter")  # the focus is on the button
        self.assertEqual([float(cell) for cell in cells(unchanged)], sorted(numbers))
        self.assertEqual(page.locator("#said").text_content(), "Signatures: sorted by Unchanged, ascending")
        page.keyboard.press("/")  # keys without a modifier belong to the browser and to screen readers
        self.assertEqual(page.evaluate("document.activeElement.tagName"), "BUTTON")
        page.locator("#filter input[type=search]").fill("addmm 31x1024")
        self.assertEqual((len(cells(shape)), page.locator("#shown").text_content()), (1, "1 of 40 rows"))
        page.locator("#filter input[type=search]").fill("")
        page.locator("#filter label", has_text="float16").locator("input").uncheck()
        self.assertEqual(page.locator("#shown").text_content(), "20 of 40 rows")

    def test_keyboard(self):
        self.page_of(self.trace("mixed"))
        page = self.open(viewport={"width": 390, "height": 900})
        seen = []
        for _ in range(80):
            page.keyboard.press("Tab")
            seen.append(page.evaluate("(document.activeElement.textContent || document.activeElement.type || '').trim().slice(0, 30)"))
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            if page.evaluate("document.activeElement === document.body"):
                break
            self.assertEqual(outline, "solid", seen[-1])
        for expected in ("Skip to the result", "Signatures", "Copy command", "search", "checkbox", "Shape"):
            self.assertIn(expected, seen)

    def wait_for(self, page, condition):
        """The policy of the page forbids page.wait_for_function."""
        for _ in range(200):
            if page.evaluate(condition):
                return
            page.wait_for_timeout(50)
        self.fail(condition)

    def test_keys_reach_and_operate_everything(self):
        self.page_of(self.trace("faults"), self.trace("kernels", "k.aat", "1000"), self.trace("gradient", None, "130"))
        for width in (1400, 390):
            page = self.open(viewport={"width": width, "height": 700})
            controls = page.evaluate(NUMBER_CONTROLS)
            for key in ("Tab", "Shift+Tab"):
                page.evaluate("document.activeElement.blur()")
                reached, covered = set(), []
                for _ in range(controls + 1):
                    page.keyboard.press(key)
                    number, seen = page.evaluate(FOCUSED)
                    reached.add(number)
                    covered += [] if seen == "" else [seen]
                self.assertEqual(covered, [], (key, width))
                self.assertEqual(reached - {None}, {str(i) for i in range(controls)}, (key, width))
        page.locator(".skip").focus()
        page.keyboard.press("Enter")
        self.assertEqual(page.evaluate("location.hash"), "#result")
        page.locator("summary").first.focus()
        for key, is_open in (("Enter", True), ("Space", False)):
            page.keyboard.press(key)
            self.assertEqual(page.evaluate("document.querySelector('details').open"), is_open)
        page.locator("#filter input[type=checkbox]").first.focus()
        before = page.locator("#shown").text_content()
        page.keyboard.press("Space")
        self.assertNotEqual(page.locator("#shown").text_content(), before)
        page.keyboard.press("Space")
        page.locator("button[data-copy]").focus()
        page.keyboard.press("Enter")
        self.wait_for(page, "document.getElementById('said').textContent.startsWith('Command ')")
        page.locator(".scroll:has(#signatures)").focus()
        page.keyboard.press("ArrowRight")
        self.wait_for(page, "document.getElementById('signatures').parentElement.scrollLeft > 0")

    def test_states_are_announced(self):
        """A screen reader hears the order of a table and the number of rows that a filter leaves."""
        self.page_of(self.trace("mixed"))
        page = self.open()
        heads = page.locator("#signatures thead th")
        orders = heads.evaluate_all("list => list.map(head => head.ariaSort)")
        self.assertEqual(sorted(orders), ["descending", *["none"] * (len(orders) - 1)])
        live = {node["live"] for node in spoken(page).values() if node.get("live")}
        self.assertEqual(live, {"polite"})
        for place in ("#said", "#shown"):
            self.assertEqual(page.locator(place).evaluate("each => each.ariaLive"), "polite", place)

    def test_without_script_and_style(self):
        self.page_of(self.trace("mixed"))
        page = self.open(java_script_enabled=False, viewport={"width": 800, "height": 900})
        self.assertTrue(page.locator("#signatures").is_visible())
        for absent in ("#filter", "button"):
            self.assertFalse(page.locator(absent).first.is_visible(), absent)


if __name__ == "__main__":
    if not (sync_playwright and CHROMIUM):
        print("without Chromium and the Python package playwright (tools/quickstart test brings them) the pages are only read")
        result = unittest.main(exit=False).result
        sys.exit(77 if result.wasSuccessful() else 1)
    unittest.main()
