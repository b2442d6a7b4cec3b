import { createHash } from 'node:crypto';
import { STRICT_CSP } from '../security-headers.ts';

export const STYLE = `
  :root {
    color-scheme: light dark; font: 16px/1.55 system-ui, sans-serif;
    --text: #1c2024; --soft: #565f69; --page: #fff; --panel: #f4f6f8; --line: #d9dee3; --link: #0b5cad;
    --get: #0b5cad; --post: #1a6b34; --put: #8a4b00; --bad: #a11d2b;
  }
  @media (prefers-color-scheme: dark) {
    :root {
      --text: #e6e9ec; --soft: #a4adb6; --page: #14171a; --panel: #1e2226; --line: #343a40; --link: #7ab8ff;
      --get: #7ab8ff; --post: #79d292; --put: #f0b46a; --bad: #ff9aa4;
    }
  }
  * { box-sizing: border-box; }
  html { scroll-padding-top: 1rem; }
  body { margin: 0; color: var(--text); background: var(--page); }
  a { color: var(--link); }
  code, pre, .path, .method { font-family: ui-monospace, 'SF Mono', Menlo, Consolas, monospace; }
  .layout { display: grid; grid-template-columns: 21rem minmax(0, 1fr); max-width: 90rem; margin: 0 auto; }
  nav { position: sticky; top: 0; height: 100vh; overflow-y: auto; padding: 1.25rem; border-right: 1px solid var(--line);
    font-size: 0.85rem; }
  nav h2 { font-size: 0.85rem; margin: 1.1rem 0 0.3rem; color: var(--soft); }
  nav ul { list-style: none; margin: 0; padding: 0; }
  nav li a { display: flex; gap: 0.5rem; padding: 0.2rem 0.3rem; color: var(--text); text-decoration: none;
    border-radius: 4px; }
  nav li a:hover, nav li a:focus-visible { background: var(--panel); }
  nav .method { min-width: 2.6rem; font-size: 0.75rem; line-height: 1.7; }
  nav summary { cursor: pointer; font-weight: 600; }
  main { padding: 1.5rem 2rem 6rem; max-width: 60rem; min-width: 0; }
  h1 { font-size: 1.7rem; margin: 0 0 0.5rem; }
  main > h2 { margin: 3rem 0 0; padding-bottom: 0.4rem; border-bottom: 2px solid var(--line); font-size: 1.3rem; }
  section { padding: 1.4rem 0; border-bottom: 1px solid var(--line); }
  section:target h3 { outline: 2px solid var(--link); outline-offset: 4px; border-radius: 2px; }
  h3 { font-size: 1.05rem; margin: 0; overflow-wrap: anywhere; }
  h3 a.self { text-decoration: none; color: inherit; }
  h3 a.self:hover .path { text-decoration: underline; }
  .path { font-size: 0.95rem; font-weight: 600; }
  .method { font-weight: 700; margin-right: 0.4rem; }
  .GET { color: var(--get); } .POST { color: var(--post); } .PUT { color: var(--put); } .DELETE { color: var(--bad); }
  h4 { font-size: 0.85rem; margin: 1rem 0 0.3rem; color: var(--soft); }
  p { margin: 0.4rem 0; }
  pre { margin: 0.3rem 0; padding: 0.7rem 0.9rem; background: var(--panel); border: 1px solid var(--line);
    border-radius: 6px; overflow-x: auto; font-size: 0.82rem; line-height: 1.5; white-space: pre; }
  pre.shell { white-space: pre-wrap; overflow-wrap: anywhere; }
  table { border-collapse: collapse; width: 100%; font-size: 0.88rem; }
  th { text-align: left; font-weight: 600; color: var(--soft); font-size: 0.8rem; }
  th, td { padding: 0.3rem 0.8rem 0.3rem 0; vertical-align: top; border-bottom: 1px solid var(--line);
    overflow-wrap: anywhere; }
  td:first-child { white-space: nowrap; }
  details.answer { margin: 0.25rem 0; font-size: 0.9rem; }
  details.answer summary { cursor: pointer; }
  .refusals { color: var(--soft); font-size: 0.88rem; }
  @media (max-width: 60rem) {
    .layout { display: block; }
    nav { position: static; height: auto; border-right: 0; border-bottom: 1px solid var(--line); padding: 0.8rem 1rem; }
    nav li a { padding: 0.4rem 0.3rem; overflow-wrap: anywhere; }
    main { padding: 1rem 1rem 4rem; }
    thead { display: none; }
    tr { display: block; padding: 0.4rem 0; border-bottom: 1px solid var(--line); }
    td { display: block; border: 0; padding: 0.05rem 0; }
    td:empty { display: none; }
    td:first-child { font-weight: 600; }
  }
  /* Beside the text the list is always open; above it, on a phone, it opens when asked. */
  @media (min-width: 60.01rem) {
    nav details::details-content { content-visibility: visible; display: block; }
    @supports selector(::details-content) { nav summary { display: none; } }
  }
`;

const styleHash = createHash('sha256').update(STYLE).digest('base64');

/** The page's own style and nothing else: neither scripts nor anything from elsewhere. */
export const DOCS_CSP = `${STRICT_CSP}; style-src 'sha256-${styleHash}'`;
