'use strict';

// Elements of the page. Text is never markup: names come from the file of the model.

/* global document, innerWidth, innerHeight */

const SVG = 'http://www.w3.org/2000/svg';

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === 'style') for (const [property, text] of Object.entries(value)) node.style.setProperty(property, text);
    else if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

const element = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const shape = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
const byId = (id) => document.getElementById(id);

/** Shows some lines beside the pointer while it is over a node. */
function explain(node, lines) {
  const tip = byId('tip');
  node.addEventListener('pointermove', ({ clientX, clientY }) => {
    const [title, ...rest] = lines();
    tip.replaceChildren(element('b', {}, title), ...rest.flatMap((line) => [element('span', {}, line), element('br')]));
    tip.hidden = false;
    tip.style.left = `${Math.max(4, Math.min(clientX + 14, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${Math.max(4, clientY + 18 + tip.offsetHeight > innerHeight ? clientY - tip.offsetHeight - 10 : clientY + 18)}px`;
  });
  node.addEventListener('pointerleave', () => (tip.hidden = true));
}

module.exports = { byId, element, explain, shape };
