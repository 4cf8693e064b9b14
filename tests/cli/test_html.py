"""The HTML report in a real browser: rendered, sorted by click and by keyboard, without errors or network access."""
import os
import re
import shutil
import sys
import unittest

from case import EMULATED, Case

try:
    from playwright.sync_api import sync_playwright
except ImportError:
    sync_playwright = None
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


class Html(Case):
    def page_of(self, *arguments, **variables):
        result = self.autoamp("report", "--format", "html", *arguments, **variables)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        (self.here / "report.html").write_text(result.stdout)
        return result.stdout

    def test_one_file_that_needs_nothing(self):
        text = self.page_of(self.trace("mixed"), self.trace("kernels", "k.aat", "1000"))
        self.assertNotRegex(text, r"https?://|src=|@import|url\(")
        for table in re.findall(r"<table.*?</table>", text, re.S):
            self.assertIn("<caption>", table)
            self.assertRegex(table, r'<th scope="col" aria-sort="none"[^>]*><button type="button">')
        for svg in re.findall(r"<svg.*?</svg>", text, re.S):
            self.assertRegex(svg, r'role="img" aria-labelledby="(\S+)-t \1-d"><title id="\1-t">[^<]+</title><desc id="\1-d">[^<]+')
        self.assertEqual(text.count("<svg"), 3)
        self.assertIn("prefers-color-scheme:dark", text)
        self.assertIn(EMULATED, text)
        self.assertIn("sgemm &lt;a|b&gt;", text)
        self.assertNotIn("<a|b>", text)

    def test_curves_have_names_instead_of_hashes(self):
        text = self.page_of(self.trace("mixed"), self.trace("gradient", None, "130"), self.trace("findings"))
        charts = {svg[svg.index('id="') + 4:svg.index("-t\"")]: svg for svg in re.findall(r"<svg.*?</svg>", text, re.S)}
        self.assertEqual(set(charts), {"timeline", "ops-chart", "scaler-chart", "gradient-chart"})
        own, gradient = charts["scaler-chart"], charts["gradient-chart"]
        self.assertRegex(own, r"<title>cublasSgemm_v2 TN 1024x1024x1024, A, [^<]+</title>")
        self.assertNotRegex(own + gradient, r"\b[0-9a-f]{8}\b")
        self.assertRegex(gradient, r"<title>torch#0, [^<]+</title><line ")
        self.assertRegex(gradient, r"<circle [^>]+><title>torch#0: step 6 skipped, 2\^14 to 2\^13, ")
        self.assertIn("130 steps, 6 skipped, scale first 2^16, least 2^10, most 2^36, last 2^35", gradient)
        self.assertNotRegex(gradient, r"nan|inf%|-inf")
        self.assertEqual(gradient.count("<g "), 8)  # the most frequent events; the description counts the rest
        self.assertRegex(gradient, r"; 1 more curve<|…<")
        self.assertNotIn("gradient-chart", self.page_of("mixed.aat"))

    def test_size_does_not_grow_with_the_trace(self):
        few, many = (len(self.page_of(self.trace("many", f"{number}.aat", str(number)))) for number in (20000, 1000000))
        self.assertLess(many, few + 60000)

    @unittest.skipUnless(sync_playwright and CHROMIUM, "no Chromium, or no Python package playwright")
    def test_curves_of_scales_on_narrow_and_wide_screens(self):
        self.page_of(self.trace("gradient", None, "130"))
        with sync_playwright() as play:
            browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            for width in (1400, 800, 390):
                page = browser.new_page(viewport={"width": width, "height": 900})
                page.goto(f"file://{self.here}/report.html")
                self.assertEqual(page.evaluate("document.documentElement.scrollWidth"), width)
                chart = page.evaluate("document.querySelector('#gradient-chart-t').closest('svg').getBoundingClientRect().width")
                line = page.evaluate("document.querySelector('#gradient-chart-t').closest('svg').querySelector('g').getBoundingClientRect().width")
                self.assertGreater(line, 0.95 * chart)
                heights = page.eval_on_selector_all("svg.lines text", "texts => texts.map(text => text.getBoundingClientRect().height)")
                self.assertEqual(len(heights), 8)
                self.assertGreater(min(heights), 11)
                marks = page.eval_on_selector_all("#gradient-chart-t ~ g circle", "marks => marks.map(mark => mark.getBoundingClientRect().x)")
                self.assertEqual((len(marks), marks), (6, sorted(marks)))
            browser.close()

    @unittest.skipUnless(sync_playwright and CHROMIUM, "no Chromium, or no Python package playwright")
    def test_in_a_browser(self):
        self.page_of("--by", "op", self.trace("mixed"), self.trace("kernels", "k.aat", "1000"))
        said, asked = [], []
        with sync_playwright() as play:
            browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            for scheme in ("light", "dark"):
                page = browser.new_page(color_scheme=scheme, viewport={"width": 1200, "height": 1600})
                page.on("console", lambda message: said.append(message.text))
                page.on("pageerror", lambda error: said.append(str(error)))
                page.on("request", lambda request: asked.append(request.url))
                page.goto(f"file://{self.here}/report.html")
                background = page.evaluate("getComputedStyle(document.body).backgroundColor")
                self.assertEqual(background, "rgb(255, 255, 255)" if scheme == "light" else "rgb(15, 19, 24)")
                if pictures := os.environ.get("PICTURES"):
                    page.screenshot(path=f"{pictures}/{scheme}.png", full_page=True)
            self.assertGreater(page.evaluate("document.querySelector('#timeline-t').closest('svg').getBoundingClientRect().height"), 50)
            cells = lambda: page.eval_on_selector_all("#ops tbody tr", "rows => rows.map(row => +row.cells[ops.at].dataset.v)")
            page.evaluate("window.ops = {at: [...document.querySelectorAll('#ops th')].findIndex(th => th.textContent == 'calls')}")
            before = cells()
            calls = page.locator("#ops th", has_text=re.compile("^calls$"))
            calls.locator("button").click()
            self.assertEqual((cells(), calls.get_attribute("aria-sort")), (sorted(before, reverse=True), "descending"))
            self.assertNotEqual(cells(), before)
            page.keyboard.press("Enter")  # the focus is on the button
            self.assertEqual((cells(), calls.get_attribute("aria-sort")), (sorted(before), "ascending"))
            self.assertIn("sorted by calls, ascending", page.locator("#said").text_content())
            page.locator("#ops th", has_text="entry").locator("button").click()
            names = page.eval_on_selector_all("#ops tbody tr", "rows => rows.map(row => row.textContent.match(/cublas\\w+/)[0])")
            self.assertEqual((names, calls.get_attribute("aria-sort")), (sorted(names), "none"))
            browser.close()
        self.assertEqual(said, [])
        self.assertEqual([url for url in asked if not url.startswith("file://")], [])


if __name__ == "__main__":
    if not (sync_playwright and CHROMIUM):
        print("without Chromium and the Python package playwright (tools/quickstart test brings them) the page is only read")
        result = unittest.main(exit=False).result
        sys.exit(77 if result.wasSuccessful() else 1)
    unittest.main()
