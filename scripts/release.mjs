// Makes a release: `npm run release -- VERSION`. Checks, tests, packs, and publishes; `--dry-run` neither changes the
// repository nor publishes, `--skip-tests` skips the tests. Without a version, releases that of package.json.
import { execFileSync } from 'node:child_process';
import { hash } from 'node:crypto';
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';

const root = resolve(import.meta.dirname, '..');
const out = join(root, 'release');
const read = (file) => readFileSync(join(root, file), 'utf8');
const run = (command, args, options = {}) => execFileSync(command, args, { cwd: root, stdio: 'inherit', ...options });
const ask = (command, args) => run(command, args, { stdio: ['ignore', 'pipe', 'inherit'], encoding: 'utf8' });
const say = (text) => process.stdout.write(`${text}\n`);

function refuse(problem) {
  process.stderr.write(`Not released: ${problem}\n`);
  process.exit(1);
}

const headingOf = (version) => new RegExp(`^## ${version.replaceAll('.', '\\.')}(?: \\(.+\\))?$`, 'm');

/** The changelog's lines of a version, up to the next version. */
function notesOf(version) {
  const [, notes] = read('CHANGELOG.md').split(headingOf(version));
  return notes?.split('\n## ')[0].trim();
}

/** A released version has its date in the heading. */
function dateChangelog(version) {
  const today = new Date().toISOString().slice(0, 10);
  writeFileSync(
    join(root, 'CHANGELOG.md'),
    read('CHANGELOG.md').replace(headingOf(version), `## ${version} (${today})`),
  );
}

const present = JSON.parse(read('package.json'));
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { 'dry-run': { type: 'boolean' }, 'skip-tests': { type: 'boolean' } },
});
const isDry = values['dry-run'] === true;
const version = positionals[0] ?? present.version;
if (!/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version)) refuse(`"${version}" is not a version; expected 1.2.3`);
if (notesOf(version) === undefined) refuse(`CHANGELOG.md has no section "## ${version}"`);
if (notesOf(version) === '') refuse(`the section "## ${version}" of CHANGELOG.md is empty`);
if (!isDry) {
  if (values['skip-tests']) refuse('--skip-tests goes with --dry-run alone');
  if (present.repository.url.includes('/OWNER/')) refuse('package.json names no repository yet: replace OWNER');
  if (ask('git', ['status', '--porcelain']).trim() !== '')
    refuse('the working tree has changes that are not committed');
  if (version !== present.version) run('npm', ['version', version, '--no-git-tag-version', '--ignore-scripts']);
  dateChangelog(version);
}

say(`Releasing ${present.name} ${version}${isDry ? ', without publishing it' : ''}`);
run('npm', ['run', 'build', '--silent']);
// Later releases are tested to upgrade from it.
if (!isDry) run('npm', ['run', 'freeze']);
if (values['skip-tests']) say('Tests are left out');
else {
  run('npm', ['run', 'lint']);
  run('npm', ['run', 'typecheck']);
  run('npm', ['test']);
}

run('node', ['scripts/sbom.mjs']);
rmSync(out, { recursive: true, force: true });
mkdirSync(out);
const [packed] = JSON.parse(ask('npm', ['pack', '--ignore-scripts', '--json', '--pack-destination', out]));
say(
  `${packed.filename}: ${packed.entryCount} files, ${(packed.size / 1e6).toFixed(2)} MB, ${(packed.unpackedSize / 1e6).toFixed(1)} MB unpacked`,
);
cpSync(join(root, 'dist/sbom.cdx.json'), join(out, 'sbom.cdx.json'));
writeFileSync(join(out, 'notes.md'), `${notesOf(version)}\n`);
const files = [packed.filename, 'sbom.cdx.json'];
const sums = files.map((file) => `${hash('sha256', readFileSync(join(out, file)))}  ${file}\n`).join('');
writeFileSync(join(out, 'SHA256SUMS'), sums);
process.stdout.write(sums);
if (isDry) say('All of it is in release/. Nothing was published');
else {
  run('git', ['add', '--all']);
  run('git', ['commit', '--message', `Release ${version}`]);
  run('git', ['tag', '--annotate', `v${version}`, '--message', `Release ${version}`]);
  run('npm', ['publish', join(out, packed.filename)]);
  say(`Published. Push the commit and the tag v${version}, and attach release/ to it`);
}
