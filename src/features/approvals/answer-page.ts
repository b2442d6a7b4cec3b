import { escapeHtml } from '../../model/text.ts';

/** The name of the style sheet next to the pages; no token has a dot. */
export const STYLE_NAME = 'style.css';

export const STYLE = `:root { color-scheme: light dark; font: 16px/24px system-ui, sans-serif;
  background: light-dark(#f7f7f9, #0f0f13); color: light-dark(#1a1a21, #ececf1); }
* { box-sizing: border-box; }
body { display: grid; min-height: 80vh; place-items: center; margin: 0; }
main { display: grid; gap: 16px; width: min(32rem, calc(100vw - 32px)); padding: 24px; border-radius: 6px;
  border: 1px solid light-dark(#e3e3e9, #2b2b35); background: light-dark(#ffffff, #17171d); }
h1, p { margin: 0; overflow-wrap: anywhere; white-space: pre-line; }
h1 { font-size: 20px; line-height: 28px; }
p { color: light-dark(#5c5c6b, #a5a5b3); font-size: 14px; }
[role='alert'] { color: light-dark(#b3211f, #ff8d86); }
form { display: flex; flex-wrap: wrap; gap: 8px; }
button { font: inherit; font-weight: 500; padding: 8px 16px; border-radius: 6px; cursor: pointer; overflow-wrap: anywhere;
  border: 1px solid light-dark(#c9c9d3, #43434f); background: transparent; color: inherit; }
button.picked { border-color: transparent; background: light-dark(#4f46e5, #5a52e0); color: #ffffff; }
`;

/** `service` is the name that people use; senders and authors wrote the other texts. */
interface Page {
  readonly service: string;
  readonly title: string;
  readonly about?: string | undefined;
  readonly problem?: string | undefined;
  readonly choices?: readonly string[] | undefined;
  /** The choice that the link names. */
  readonly picked?: string | undefined;
}

/** The only place that escapes these texts. */
export function answerPage({ service, title, about, problem, choices = [], picked }: Page): string {
  const buttons = choices.map((choice) => {
    const [name, look] = [escapeHtml(choice), choice === picked ? ' class="picked"' : ''];
    return `<button name="choice" value="${name}"${look}>${name}</button>`;
  });
  const lines = [
    `<h1>${escapeHtml(title)}</h1>`,
    ...(about === undefined ? [] : [`<p>${escapeHtml(about)}</p>`]),
    ...(problem === undefined ? [] : [`<p role="alert">${escapeHtml(problem)}</p>`]),
    // To the page's own address, without a choice in the query that the pressed button could contradict.
    ...(buttons.length === 0 ? [] : ['<form method="post" action="?">', ...buttons, '</form>']),
  ];
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>${escapeHtml(title)} · ${escapeHtml(service)}</title>
<link rel="stylesheet" href="${STYLE_NAME}">
</head>
<body>
<main>
${lines.join('\n')}
</main>
</body>
</html>
`;
}
