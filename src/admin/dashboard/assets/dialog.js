// What lies above a page: a detail, a question, a form, a secret that is shown once.
import { h, unique } from './dom.js';
import { problem, toast } from './ui.js';

export function open(title, ...children) {
  const name = unique('dialog');
  const dialog = h('dialog', { 'aria-labelledby': name });
  const close = h('button', { type: 'button', on: { click: () => dialog.close() } }, 'Close');
  dialog.append(h('div', { class: 'inside' }, h('header', {}, h('h2', { id: name }, title), close), children));
  dialog.addEventListener('close', () => dialog.remove());
  dialog.addEventListener('click', (event) => { if (event.target === dialog) dialog.close(); });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

// Fields in, `send(values)` out; what the gateway refuses is shown, and what was written stays.
export function form(title, { fields, button, about, grave = false, send }) {
  const faults = h('div', { 'aria-live': 'assertive' });
  const go = h('button', { class: grave ? 'grave' : 'main' }, button);
  const inside = h('form', {}, about && h('p', { class: 'quiet' }, about), fields, faults, h('div', { class: 'actions' }, go));
  const dialog = open(title, inside);
  inside.addEventListener('submit', async (event) => {
    event.preventDefault();
    go.disabled = true;
    try {
      await send(new FormData(inside), dialog);
      dialog.close();
    } catch (error) {
      faults.replaceChildren(problem(error));
    }
    go.disabled = false;
  });
  inside.querySelector('input, select, textarea')?.focus();
  return dialog;
}

export const confirm = (title, about, button, send) => form(title, { fields: [], button, about, grave: true, send });

export function secret(title, about, text) {
  const shown = h('input', { class: 'code', readonly: true, value: text, 'aria-label': title });
  const copy = h('button', { type: 'button', class: 'main', on: { click: async () => {
    shown.select();
    try { await navigator.clipboard.writeText(text); toast('Copied.'); } catch { toast('Select the text and copy it.'); }
  } } }, 'Copy');
  return open(title, h('p', { class: 'notice warning' }, about), shown, h('div', { class: 'actions' }, copy));
}
