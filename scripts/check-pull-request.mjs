// The script of `action.yml`: runs `sluice check` against a running service and writes the result to the job's summary,
// to a comment on the pull request and to the outputs. It exits with the check's code, and needs no packages.
import { spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { appendFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { comment } from './comment.mjs';

const FAILED = 2;
const ACCESS = ['same', 'narrower', 'wider'];
const CLASSES = ['safe', 'caution', 'breaking'];

const { env } = process;
const { name, version } = JSON.parse(readFileSync(join(import.meta.dirname, '../package.json'), 'utf8'));
const from = env.INPUT_PACKAGE || `${name}@${version}`;
// The command runs in an empty folder, so that it reads no `.env` or config module of the pull request with the token.
const folder = mkdtempSync(join(tmpdir(), 'sluice-check-'));
const summary = join(folder, 'summary.md');

/** Starts the command; no logged line contains the token. */
function check() {
  const args = ['check', resolve(env.INPUT_MANIFESTS || 'manifests'), '--against', env.INPUT_URL ?? ''];
  if (env.INPUT_ALLOW) args.push('--allow', env.INPUT_ALLOW);
  if (env.INPUT_REHEARSE) args.push('--rehearse', env.INPUT_REHEARSE);
  if (env.INPUT_TOKEN) args.push('--token', env.INPUT_TOKEN);
  // Without GitHub's tokens and without settings of a service in the job's environment.
  const passed = Object.entries(env).filter(([key]) => !/^(INPUT|GITHUB|ACTIONS|SLUICE)_/.test(key));
  return spawnSync('npx', ['--yes', '--package', from, '--', 'sluice', ...args, '--json', '--summary', summary], {
    cwd: folder,
    env: Object.fromEntries(passed),
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  });
}

/** The gravest value among the outcomes; empty if nothing was compared. */
function gravest(outcomes, of, order) {
  if (outcomes.length === 0) return '';
  return order[Math.max(...outcomes.map((outcome) => order.indexOf(of(outcome))))] ?? '';
}

function report({ status, stdout = '', stderr = '', error }) {
  try {
    return { code: status ?? FAILED, text: readFileSync(summary, 'utf8'), outcomes: JSON.parse(stdout).outcomes };
  } catch {
    const why = (error?.message ?? stderr.trim()) || `the command ended with ${status}`;
    const said = why.replaceAll(env.INPUT_TOKEN || '\0', '***').replaceAll('```', "'''");
    return { code: FAILED, text: `### Sluice: could not be checked\n\n\`\`\`text\n${said}\n\`\`\`\n`, outcomes: [] };
  }
}

const { code, text, outcomes } = report(check());
rmSync(folder, { recursive: true });
// A manifest's name may look like a command to the runner.
const pause = randomUUID();
process.stdout.write(`::stop-commands::${pause}\n${text}::${pause}::\n`);
if (env.GITHUB_STEP_SUMMARY) appendFileSync(env.GITHUB_STEP_SUMMARY, text);
if (env.GITHUB_OUTPUT) {
  const gravestClass = gravest(outcomes, (outcome) => outcome.class, CLASSES);
  const access = gravest(outcomes, (outcome) => outcome.access, ACCESS);
  appendFileSync(env.GITHUB_OUTPUT, `code=${code}\nclass=${gravestClass}\naccess=${access}\n`);
}
if (env.INPUT_COMMENT !== 'false') {
  const { url, missing } = await comment(nameOfComment(), text, env).catch(({ message }) => ({ missing: message }));
  // The check counts, not the comment: a pull request from a fork may not write one.
  process.stdout.write(url === undefined ? `::warning::No comment: ${missing.replace(/\s+/g, ' ')}\n` : `${url}\n`);
}
process.exitCode = code;

/** One for each service and folder, so that each job of a matrix leaves its own comment. */
function nameOfComment() {
  const host = URL.canParse(env.INPUT_URL) ? new URL(env.INPUT_URL).host : 'nowhere';
  return `sluice check ${host} ${env.INPUT_MANIFESTS || 'manifests'}`.replace(/[^\w.:/ -]|--/g, '_');
}
