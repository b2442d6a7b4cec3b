// Searches all pages as one types. What it searches in is loaded when somebody is about to, as scripts, so that it also works
// where the site is opened from a disk.
const root = document.currentScript.dataset.root;
const input = document.getElementById('search');
const found = document.getElementById('found');

// On a small screen the navigation would hide the page.
if (matchMedia('(max-width: 48rem)').matches) document.querySelector('.navigation').open = false;

const load = (name) =>
  new Promise((loaded, failed) => {
    const script = document.createElement('script');
    Object.assign(script, { src: `${root}${name}`, onload: loaded, onerror: failed });
    document.head.append(script);
  });

let index;
async function openIndex() {
  await Promise.all([load('minisearch.js'), load('search-data.js')]);
  const options = { prefix: true, fuzzy: (term) => (term.length > 4 ? 0.2 : false), combineWith: 'AND' };
  const made = new window.MiniSearch({
    fields: ['page', 'heading', 'text'],
    storeFields: ['url', 'page', 'heading', 'text'],
    searchOptions: { ...options, boost: { page: 4, heading: 3 } },
  });
  made.addAll(window.sluicePages);
  return made;
}

/** A piece of the text around the first word that was found. */
function excerpt(text, terms) {
  const at = Math.min(...terms.map((term) => text.toLowerCase().indexOf(term)).filter((place) => place >= 0));
  const from = Number.isFinite(at) ? Math.max(0, at - 40) : 0;
  return `${from > 0 ? '…' : ''}${text.slice(from, from + 160)}`;
}

function entry({ url, page, heading, text, terms }) {
  const link = document.createElement('a');
  link.href = `${root}${url}`;
  const title = document.createElement('strong');
  title.textContent = page === heading ? page : `${page} › ${heading}`;
  const words = document.createElement('small');
  words.textContent = excerpt(text, terms);
  link.append(title, words);
  return link;
}

async function search() {
  const asked = input.value.trim();
  found.hidden = asked === '';
  if (asked === '') return;
  index ??= openIndex();
  const results = (await index).search(asked).slice(0, 12);
  if (asked !== input.value.trim()) return;
  const nothing = document.createElement('p');
  nothing.textContent = `Nothing has all the words of “${asked}”`;
  const list = document.createElement('div');
  list.dataset.asked = asked;
  list.append(...(results.length > 0 ? results.map(entry) : [nothing]));
  found.replaceChildren(list);
}

input.addEventListener('input', () => void search());
input.addEventListener('focus', () => {
  index ??= openIndex();
});
document.addEventListener('keydown', (event) => {
  const isTyping = /^(INPUT|TEXTAREA)$/.test(event.target.tagName);
  if (event.key === '/' && !isTyping) {
    event.preventDefault();
    input.focus();
  }
  if (event.key === 'Escape') found.hidden = true;
  if (event.key === 'Enter' && event.target === input) found.querySelector('a')?.click();
});
document.addEventListener('click', (event) => {
  if (!event.target.closest('.search')) found.hidden = true;
});
