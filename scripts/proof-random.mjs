// Runs all tests with random draws, with seeds that the gate does not use: `npm run proof:random -- --help`.
import { spawnSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';

const HELP = `npm run proof:random -- [--seeds N] [--seed S] [--both] [FILE...]

Runs the tests that draw: properties, models, conformance of the stores, kill points. Each seed takes long.

  --seeds N  draws so many seeds (default 1)
  --seed S   takes this seed, from 0 to 2147483647; may be given again
  --both     runs on PostgreSQL too what runs on either database
  FILE       only test files whose path contains this text
`;
const SEEDS = 2 ** 31;
const root = resolve(import.meta.dirname, '..');
const say = (text) => process.stdout.write(`${text}\n`);

function refuse(problem) {
  process.stderr.write(`${problem}\n\n${HELP}`);
  process.exit(2);
}

function optionsOf() {
  try {
    const options = {
      seeds: { type: 'string', default: '1' },
      seed: { type: 'string', multiple: true, default: [] },
      both: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    };
    return parseArgs({ options, allowPositionals: true });
  } catch (error) {
    return refuse(error.message);
  }
}

/** A whole number in decimal digits; refuses anything else. */
function numberOf(name, text, { min, max }) {
  const number = Number(text);
  if (!/^\d+$/.test(text) || number < min || number > max)
    refuse(`--${name} takes a whole number from ${min} to ${max}`);
  return number;
}

/** Whether a file, or a file that it imports, makes random draws. */
function draws(file, seen = new Set()) {
  if (seen.has(file) || !file.endsWith('.ts') || file.includes('/src/')) return false;
  seen.add(file);
  // A test can hold the text of a module that imports others.
  if (!existsSync(file)) return false;
  const text = readFileSync(file, 'utf8');
  if (/from '(?:fast-check|[./]+\/chance\.ts)'/.test(text)) return true;
  return [...text.matchAll(/from '(\.[^']+)'/g)].some(([, path]) => draws(resolve(file, '..', path), seen));
}

/** The files with random draws, by vitest project; `proof-postgres` selects its own from all of them. */
function filesThatDraw(parts, isBoth) {
  const found = globSync('test/**/*.{test,proof}.ts', { cwd: root })
    .filter((file) => parts.length === 0 || parts.some((part) => file.includes(part)))
    .filter((file) => draws(join(root, file)))
    .sort();
  const projectOf = (file) =>
    file.endsWith('.proof.ts') ? 'proof' : file.startsWith('test/postgres/') ? 'postgres' : 'fast';
  const projects = Map.groupBy(found, projectOf);
  if (projects.size === 0) refuse('No such test draws.');
  if (isBoth) projects.set('proof-postgres', found);
  return projects;
}

/** One line for each failed test: where fast-check found the failure, and the command that repeats it. */
function failuresOf(report, { project, seed }) {
  const { testResults } = JSON.parse(readFileSync(report, 'utf8'));
  return testResults.flatMap(({ name, status, assertionResults }) => {
    const file = name.slice(root.length + 1);
    const command = `TEST_SEED=${seed} npx vitest run --project ${project} ${file}`;
    const failed = assertionResults.filter((test) => test.status === 'failed');
    if (failed.length === 0 && status === 'failed') return [`${file}\n  ${command}`];
    return failed.map(({ fullName, failureMessages }) => {
      const path = /\{ seed: .*?path: .*?\}/.exec(failureMessages.join('\n'))?.[0];
      return `${file}: ${fullName}${path === undefined ? '' : `\n  fast-check: ${path}`}\n  ${command}`;
    });
  });
}

const { values, positionals } = optionsOf();
if (values.help) {
  process.stdout.write(HELP);
  process.exit(0);
}
const count = numberOf('seeds', values.seeds, { min: 1, max: 1000 });
const given = values.seed.map((text) => numberOf('seed', text, { min: 0, max: SEEDS - 1 }));
const seeds = given.length > 0 ? given : Array.from({ length: count }, () => randomInt(SEEDS));
const projects = filesThatDraw(positionals, values.both);
const folder = mkdtempSync(join(tmpdir(), 'sluice-random-'));
const failures = [];
for (const seed of seeds) {
  for (const [project, files] of projects) {
    say(`\nTEST_SEED=${seed}: ${files.length} files of the project ${project}`);
    const report = join(folder, `${seed}-${project}.json`);
    const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`];
    const args = [
      'node_modules/vitest/vitest.mjs',
      'run',
      '--project',
      project,
      '--maxWorkers=2',
      '--passWithNoTests',
      ...reporters,
      ...files,
    ];
    const { status } = spawnSync('env', [`TEST_SEED=${seed}`, process.execPath, ...args], {
      cwd: root,
      stdio: 'inherit',
    });
    if (status !== 0) failures.push(...failuresOf(report, { project, seed }));
  }
}
rmSync(folder, { recursive: true, force: true });
say(`\nSeeds: ${seeds.join(', ')}. ${failures.length === 0 ? 'All tests passed.' : `${failures.length} failed:`}`);
for (const failure of failures) say(failure);
process.exit(failures.length === 0 ? 0 : 1);
