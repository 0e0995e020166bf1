// What runs first on every page: the menu on narrow screens, and the script that puts what can be acted on in the place of
// what the server has made.
import { problem, waiting } from './ui.js';

const body = document.body;
body.classList.add('scripted');

const button = document.querySelector('#menu-button');
button.addEventListener('click', () => {
  const isOpen = body.classList.toggle('menu-open');
  button.setAttribute('aria-expanded', String(isOpen));
});
document.addEventListener('keydown', (event) => {
  if (event.key !== 'Escape' || !body.classList.contains('menu-open')) return;
  body.classList.remove('menu-open');
  button.setAttribute('aria-expanded', 'false');
  button.focus();
});

const { page } = body.dataset;
const root = document.querySelector('#page');
if (page && root) {
  if (!root.querySelector('section')) root.replaceChildren(waiting());
  root.setAttribute('aria-busy', 'true');
  try {
    const { show } = await import(`./${page}.js`);
    await show(root);
  } catch (error) {
    root.replaceChildren(problem(error, () => location.reload()));
  }
  root.removeAttribute('aria-busy');
}
