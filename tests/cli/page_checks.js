// Looks at a rendered page as a reader does: size, position and contrast of every visible text. Returns a list of faults.
() => {
  const faults = [], texts = [];
  const isHidden = element => element.closest(".vh, .skip, [hidden], title") || !element.checkVisibility({checkVisibilityCSS: true});
  const isClipped = element => element.closest("table.cards thead") && getComputedStyle(element.closest("thead")).position === "absolute";
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, element = node.parentElement;
    if (!node.data.trim() || /^(SCRIPT|STYLE|TITLE)$/i.test(element.tagName) || isHidden(element) || isClipped(element)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const box of range.getClientRects())
      if (box.width > 0.5 && box.height > 0.5) texts.push({element, box, text: node.data.trim().slice(0, 40)});
  }

  for (const {element, box, text} of texts) {
    const size = parseFloat(getComputedStyle(element).fontSize);
    if (size < 11 || box.height < 11) faults.push(`small: ${size}px ${box.height.toFixed(1)}px "${text}"`);
  }

  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) faults.push(`wider than the screen: ${document.documentElement.scrollWidth}`);
  for (const {element, box, text} of texts)
    if (!element.closest(".scroll") && (box.left < -0.5 || box.right > width + 0.5)) faults.push(`outside of the page: "${text}"`);

  const rows = texts.map(({box}, i) => ({top: box.top, bottom: box.bottom, left: box.left, right: box.right, i})).sort((x, y) => x.top - y.top);
  for (let i = 0; i < rows.length; i++)
    for (let j = i + 1; j < rows.length && rows[j].top < rows[i].bottom - 2; j++) {
      const across = Math.min(rows[i].right, rows[j].right) - Math.max(rows[i].left, rows[j].left);
      const down = Math.min(rows[i].bottom, rows[j].bottom) - rows[j].top;
      const isOneAxis = rows[i].top === rows[j].top && texts[rows[i].i].element.closest("svg") === texts[rows[j].i].element.closest("svg");
      if (isOneAxis && texts[rows[i].i].element.closest("svg") && across > -6) faults.push(`too close: "${texts[rows[i].i].text}" and "${texts[rows[j].i].text}"`);
      if (across > 1 && down > 3) faults.push(`overlap: "${texts[rows[i].i].text}" and "${texts[rows[j].i].text}"`);
    }

  const parse = colour => (colour.match(/[\d.]+/g) || []).map(Number);
  const luminance = ([r, g, b]) => [r, g, b].map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const contrast = (x, y) => { const [a, b] = [luminance(x), luminance(y)].sort((p, q) => q - p); return (a + 0.05) / (b + 0.05); };
  const background = element => {
    for (let at = element; at; at = at.parentElement) {
      const [r, g, b, alpha = 1] = parse(getComputedStyle(at).backgroundColor);
      if (alpha > 0) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const behind = (element, box) => { // the bar below a label
    const x = box.left + box.width / 2, y = box.top + box.height / 2;
    for (const bar of element.closest("svg").querySelectorAll("rect")) {
      const shape = bar.getBoundingClientRect();
      if (shape.left <= x && x <= shape.right && shape.top <= y && y <= shape.bottom) return parse(getComputedStyle(bar).fill);
    }
    return background(element);
  };
  for (const {element, box, text} of texts) {
    const isSvg = element instanceof SVGElement, style = getComputedStyle(element);
    const ratio = contrast(parse(isSvg ? style.fill : style.color), isSvg ? behind(element, box) : background(element));
    if (ratio < 4.5) faults.push(`contrast ${ratio.toFixed(2)}: "${text}"`);
  }
  for (const shape of document.querySelectorAll("svg rect, svg path")) {
    if (isHidden(shape)) continue;
    const style = getComputedStyle(shape), colours = [style.fill, style.stroke].filter(colour => colour !== "none");
    const ratio = Math.max(...colours.map(colour => contrast(parse(colour), background(shape))));
    if (ratio < 3) faults.push(`contrast ${ratio.toFixed(2)} of a ${shape.tagName} ${shape.getAttribute("class")}`);
  }

  for (const [what, list] of [["id", [...document.querySelectorAll("[id]")].map(each => each.id)]])
    for (const id of list) if (list.filter(other => other === id).length > 1) faults.push(`${what} "${id}" twice`);
  for (const each of document.querySelectorAll("[aria-labelledby]"))
    if (!document.getElementById(each.getAttribute("aria-labelledby"))) faults.push(`no label ${each.getAttribute("aria-labelledby")}`);
  for (const each of document.querySelectorAll("nav a")) if (!document.querySelector(each.getAttribute("href"))) faults.push(`no target ${each}`);
  for (const svg of document.querySelectorAll("svg"))
    if (!svg.closest("[aria-hidden=true]") && !svg.parentElement.closest("svg") && !(svg.getAttribute("role") === "img" && svg.getAttribute("aria-label")))
      faults.push("a chart without a name");
  for (const table of document.querySelectorAll("table")) if (!table.caption?.textContent) faults.push("a table without a caption");
  for (const box of document.querySelectorAll(".scroll")) if (box.tabIndex !== 0 || !box.getAttribute("aria-label")) faults.push("a box without keyboard access");
  let level = 0;
  for (const heading of document.querySelectorAll("h1, h2, h3")) {
    const next = +heading.tagName[1];
    if (next > level + 1) faults.push(`heading ${heading.textContent} skips a level`);
    level = next;
  }
  return [...new Set(faults)];
}
