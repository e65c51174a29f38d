// The page's only way to touch the document: describe it with h(), and render() changes what differs.
// Text becomes text nodes and nothing else; there is no path from a string to markup. Attributes that
// could carry script or styles are refused, also where a description names them by mistake.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "path", "rect", "line", "circle", "g", "title", "polyline"]);
const state = new WeakMap();

/** Describe an element. Props: attributes; `on` = {event: handler}; `vars` = CSS variables; `key`. */
export function h(tag, props, ...children) {
  return { tag, props: props ?? {}, children: children.flat(Infinity).filter(isShown) };
}

/** Make `container` hold exactly `nodes`, keeping every element that is still wanted. */
export function render(container, ...nodes) {
  patchChildren(container, nodes.flat(Infinity).filter(isShown), false);
}

function isShown(node) {
  return node !== null && node !== undefined && node !== false && node !== "";
}

function patchChildren(parent, wanted, inSvg) {
  const keyed = new Map();
  for (const node of parent.childNodes) {
    const key = state.get(node)?.key;
    if (key !== undefined) keyed.set(key, node);
  }
  let place = parent.firstChild;
  for (const description of wanted) {
    const key = description.props?.key;
    let node = key === undefined ? place : keyed.get(key);
    if (key !== undefined) keyed.delete(key);
    if (key === undefined && node && state.get(node)?.key !== undefined) node = null;
    if (!node || !fits(node, description)) {
      node = create(description, inSvg);
      parent.insertBefore(node, place);
    } else {
      if (node !== place) parent.insertBefore(node, place);
      update(node, description, inSvg);
    }
    place = node.nextSibling;
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

function fits(node, description) {
  if (typeof description !== "object") return node.nodeType === Node.TEXT_NODE;
  return node.nodeType === Node.ELEMENT_NODE && node.localName === description.tag.toLowerCase();
}

function create(description, inSvg) {
  if (typeof description !== "object") return document.createTextNode(String(description));
  const svg = inSvg || SVG_TAGS.has(description.tag);
  const node = svg
    ? document.createElementNS(SVG, description.tag)
    : document.createElement(description.tag);
  state.set(node, { key: description.props.key, props: {}, on: {}, vars: {} });
  update(node, description, inSvg);
  return node;
}

function update(node, description, inSvg) {
  if (typeof description !== "object") {
    const text = String(description);
    if (node.data !== text) node.data = text;
    return;
  }
  const known = state.get(node) ?? { props: {}, on: {}, vars: {} };
  state.set(node, known);
  const { key, on = {}, vars = {}, ...props } = description.props;
  known.key = key;
  for (const name of Object.keys(known.props)) if (!(name in props)) setProp(node, name, null);
  for (const [name, value] of Object.entries(props)) {
    if (known.props[name] !== value) setProp(node, name, value);
  }
  known.props = props;
  for (const name of Object.keys(on)) {
    // One listener per event for the element's life; it calls whatever handler is current.
    if (!(name in known.on)) node.addEventListener(name, (event) => known.on[name]?.(event));
  }
  known.on = { ...Object.fromEntries(Object.keys(known.on).map((name) => [name, null])), ...on };
  for (const [name, value] of Object.entries(vars)) {
    if (known.vars[name] !== value) node.style.setProperty(name, value);
  }
  known.vars = vars;
  patchChildren(node, description.children, inSvg || SVG_TAGS.has(description.tag));
}

const REFUSED = new Set(["style", "srcdoc", "src", "action", "formaction"]);

function setProp(node, name, value) {
  if (name.startsWith("on") || REFUSED.has(name)) throw new Error(`attribute ${name} is not used here`);
  if (name === "href" && value !== null && !/^(#|\.\/|api\/)/.test(value)) {
    throw new Error(`address ${value} is not one of this page`);
  }
  if (name === "value" || name === "checked" || name === "indeterminate") {
    if (node[name] !== value) node[name] = value ?? "";
  } else if (value === null || value === undefined || value === false) {
    node.removeAttribute(name);
  } else {
    node.setAttribute(name, value === true ? "" : String(value));
  }
}
