// Writes the lists of features, one for each face: `npm run features`. A folder of src/features is in the list of each
// face that it has a file of. Lists keep their order, because people see it in the API's document and on the page; new
// features are last. Arguments name other checkouts than this folder.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

/** Suffix of the name that a face's file exports, after the folder's name: `rhythm`, `rhythmStore`, `rhythmPage`. */
const FACES = {
  service: '',
  attention: 'Attention',
  store: 'Store',
  placer: 'Placer',
  follower: 'Follower',
  manifest: 'Manifest',
  trigger: 'Trigger',
  reader: 'Reader',
  'trigger-view': 'TriggerView',
  'step-types': 'StepTypes',
  settings: 'Settings',
  'settings-check': 'SettingsCheck',
  metrics: 'Metrics',
  events: 'Events',
  plan: 'Plan',
  changes: 'Changes',
  access: 'Access',
  command: 'Command',
  page: 'Page',
};

const [, , ...checkouts] = process.argv;
for (const checkout of checkouts.length === 0 ? ['.'] : checkouts) writeLists(resolve(checkout, 'src/features'));

function writeLists(folder) {
  const features = readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name)
    .sort();
  for (const [face, suffix] of Object.entries(FACES)) {
    const list = join(folder, `${face}.ts`);
    const text = readFileSync(list, 'utf8');
    const files = features.flatMap((name) => {
      const file = ['ts', 'tsx']
        .map((ending) => `${name}/${face}.${ending}`)
        .find((each) => existsSync(join(folder, each)));
      return file === undefined ? [] : [{ name, file }];
    });
    const written = listed(text, files, suffix);
    if (written !== text) writeFileSync(list, written);
  }
}

function listed(text, files, suffix) {
  const imported = /^import \{ \w+ \} from '\.\/[\w-]+\/[\w-]+\.tsx?';\n/gm;
  const array = /\[\n?([^\]]*?),?\n?\]( as const)?;\n$/;
  const [, listedBefore = '', asConst = ''] = array.exec(text) ?? [];
  const before = listedBefore.split(',').map((name) => name.trim());
  const formerly = [...text.matchAll(/^import \{ (\w+) \} from '\.\//gm)].map(([, name]) => name);
  const now = files.map(({ name, file }) => {
    return { file, part: name.replace(/-(.)/g, (_, letter) => letter.toUpperCase()) + suffix };
  });
  const parts = now.map(({ part }) => part);
  const kept = before.filter((name) => name !== '' && (!formerly.includes(name) || parts.includes(name)));
  const names = [...kept, ...parts.filter((part) => !kept.includes(part))];
  const imports = now.map(({ file, part }) => `import { ${part} } from './${file}';\n`).join('');
  const line = `[${names.join(', ')}]${asConst};\n`;
  const declared = text.replace(imported, '').replace(array, '');
  const own = declared.slice(declared.lastIndexOf('\nexport ') + 1).length;
  const together = own + line.length <= 121 ? line : `[\n${names.map((name) => `  ${name},\n`).join('')}]${asConst};\n`;
  const end = declared.lastIndexOf('import ');
  const behind = end === -1 ? 0 : declared.indexOf('\n', end) + 1;
  return declared.slice(0, behind) + imports + declared.slice(behind) + together;
}
