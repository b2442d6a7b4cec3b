// Writes a file as a named comment on the pull request of a GitHub workflow, replacing the previous one of that name:
// comment.mjs NAME FILE. It runs on any Node that a runner has, and needs no package.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const PER_PAGE = 100;

/**
 * `variables` are those of the workflow. Returns the comment's address, or why it was not written: outside a pull
 * request, or without write access.
 */
export async function comment(name, text, variables) {
  const { GITHUB_API_URL = 'https://api.github.com', GITHUB_REPOSITORY, GITHUB_EVENT_PATH, GITHUB_TOKEN } = variables;
  const { pull_request: pull } = JSON.parse(readFileSync(GITHUB_EVENT_PATH, 'utf8'));
  if (pull === undefined) return { missing: 'this is not a pull request' };
  const ask = async (method, path, body) => {
    const response = await fetch(`${GITHUB_API_URL}/repos/${GITHUB_REPOSITORY}/issues/${path}`, {
      method,
      headers: {
        accept: 'application/vnd.github+json',
        authorization: `Bearer ${GITHUB_TOKEN}`,
        'user-agent': 'sluice',
        'x-github-api-version': '2022-11-28',
      },
      ...(body === undefined ? {} : { body: JSON.stringify({ body }) }),
      signal: AbortSignal.timeout(30_000),
    });
    return { status: response.status, answer: await response.json().catch(() => ({})) };
  };
  const marker = `<!-- ${name} -->`;
  const before = await former(marker, (page) =>
    ask('GET', `${pull.number}/comments?per_page=${PER_PAGE}&page=${page}`),
  );
  const path = before === undefined ? `${pull.number}/comments` : `comments/${before}`;
  const { status, answer } = await ask(before === undefined ? 'POST' : 'PATCH', path, `${marker}\n${text}`);
  if (status === 200 || status === 201) return { url: answer.html_url };
  return { missing: `GitHub answered ${status}: ${answer.message}` };
}

/** The comment that an earlier workflow left. People may start theirs with the same marker. */
async function former(marker, read) {
  for (let page = 1; ; page += 1) {
    const { status, answer } = await read(page);
    if (status !== 200) return undefined;
    const found = answer.find(({ body, user }) => user?.type === 'Bot' && body?.startsWith(marker));
    if (found !== undefined) return found.id;
    if (answer.length < PER_PAGE) return undefined;
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { argv, env } = process;
  const [name, file] = argv.slice(2);
  const { url, missing } = await comment(name, readFileSync(file, 'utf8'), env);
  process.stdout.write(`${url ?? `no comment: ${missing}`}\n`);
  if (missing !== undefined) process.exitCode = 1;
}
