// Writes dist/sbom.cdx.json, which the package includes: the packages inside its bundle, and those installed with it.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '..');
const read = (file) => JSON.parse(readFileSync(join(root, file), 'utf8'));
const ask = (args) =>
  JSON.parse(
    execFileSync('npm', args, {
      cwd: root,
      stdio: ['ignore', 'pipe', 'inherit'],
      encoding: 'utf8',
      maxBuffer: 2 ** 28,
    }),
  );

/** npm's list of everything in package.json and the lock file, reduced to installed and bundled packages. */
function sbomOf(bundled) {
  const all = ['sbom', '--sbom-format', 'cyclonedx', '--sbom-type', 'application', '--package-lock-only'];
  const sbom = ask(all);
  const installed = ask([...all, '--omit', 'dev']).components;
  const kept = new Set([...bundled, ...installed].map(({ group, name, version }) => keyOf({ group, name, version })));
  const inside = new Set(bundled.map(keyOf));
  const components = sbom.components
    .filter((each) => kept.has(keyOf(each)))
    .map((each) => (inside.has(keyOf(each)) ? insideOf(each) : each));
  const missing = [...kept].filter((key) => !components.some((each) => keyOf(each) === key));
  if (missing.length > 0) throw new Error(`the SBOM lacks ${missing.join(', ')}; run npm ci`);
  const refs = new Set([sbom.metadata.component['bom-ref'], ...components.map((each) => each['bom-ref'])]);
  const dependencies = sbom.dependencies
    .filter(({ ref }) => refs.has(ref))
    .map(({ ref, dependsOn = [] }) => ({ ref, dependsOn: dependsOn.filter((each) => refs.has(each)) }));
  // npm names it by its folder.
  const component = { ...sbom.metadata.component, name: read('package.json').name };
  return { ...sbom, metadata: { ...sbom.metadata, component }, components, dependencies };
}

/**
 * A component inside the bundle. Removes what npm says of a separate installation: that only development needs it, and
 * the hash of an archive, because the bundle has only a part of it, in other bytes.
 */
function insideOf({ scope: _, hashes: __, properties, ...component }) {
  const others = properties.filter(({ name }) => name !== 'cdx:npm:package:development');
  return { ...component, scope: 'required', ...(others.length > 0 && { properties: others }) };
}

function keyOf({ group, name, version }) {
  return `${group === undefined || group === '' ? '' : `${group}/`}${name}@${version}`;
}

const sbom = sbomOf(read('dist/bundled.json'));
writeFileSync(join(root, 'dist/sbom.cdx.json'), `${JSON.stringify(sbom)}\n`);
