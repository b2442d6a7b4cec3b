// The packages in the bundles: their licences, which the package must include, and a list for its SBOM.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, sep } from 'node:path';

const MODULES = `${sep}node_modules${sep}`;

/** The packages whose modules are in rolldown's output, by name. */
export function packagesOf(output) {
  const ids = output.flatMap((file) => (file.type === 'chunk' ? Object.keys(file.modules) : []));
  const folders = new Set(ids.filter((id) => id.includes(MODULES) && existsSync(id)).map(folderOf));
  return [...folders].map((folder) => {
    const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
    const texts = readdirSync(folder).filter((file) => /^(licen[cs]e|notice|copying)\b/i.test(file));
    return { name, version, license, texts: texts.sort().map((file) => readFileSync(join(folder, file), 'utf8')) };
  });
}

/** A subfolder of a package may have a `package.json` that only states the kind of its modules. */
function folderOf(id) {
  let folder = dirname(id);
  const isRoot = () => {
    const file = join(folder, 'package.json');
    return existsSync(file) && JSON.parse(readFileSync(file, 'utf8')).version !== undefined;
  };
  while (!isRoot()) folder = dirname(folder);
  return folder;
}

/** One line for each paragraph: texts that differ in their line breaks alone are the same, and pack as such. */
const unwrapped = (text) => text.replace(/(?<=\S) *\n(?=[^\s*•=-])(?!\d+\.|\(?[a-z]\)|Copyright)/g, ' ');

/** Writes both into the folder: `LICENSES.txt`, with each text once, and `bundled.json`. */
export function writePackages(folder, packages) {
  const sorted = [...new Map(packages.map((each) => [`${each.name}@${each.version}`, each])).values()].sort((a, b) =>
    a.name.localeCompare(b.name, 'en'),
  );
  const named = sorted.map(({ name, version, license }) => ({ name, version, license }));
  writeFileSync(join(folder, 'bundled.json'), `${JSON.stringify(named, null, 2)}\n`);
  const holders = new Map();
  for (const { name, version, license, texts } of sorted) {
    const text =
      texts.map((each) => unwrapped(each.replaceAll('\r\n', '\n').trim())).join('\n\n') || `Licence: ${license}`;
    holders.set(text, [...(holders.get(text) ?? []), `${name} ${version}`]);
  }
  // By length, so that similar texts are adjacent: packed they take a third less.
  const byLength = [...holders].sort(([one], [other]) => one.length - other.length);
  const parts = byLength.map(([text, names]) => `${names.join(', ')}\n\n${text}\n`);
  const line = `\n${'-'.repeat(80)}\n`;
  writeFileSync(join(folder, 'LICENSES.txt'), `Sluice contains these packages.\n${line}${parts.join(line)}`);
}
