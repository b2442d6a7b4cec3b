import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { REASON_CODES, type Reason } from '../src/model/delivery.ts';
import { STEP_ERROR_CODES } from '../src/model/run.ts';
import { EVENTS } from '../src/telemetry/events.ts';
import { isOfGate, REASONS } from '../src/webhooks/answers.ts';
import { GATE } from './gate.ts';

const ROOT = resolve(import.meta.dirname, '..');
const DECISIONS = join(ROOT, 'docs/adr');

/** Every document for readers of the repository, with its text. */
const documents = [
  ...readdirSync(ROOT).map((name) => join(ROOT, name)),
  ...['docs', 'examples'].flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' }).map((name) => join(ROOT, folder, name)),
  ),
]
  .filter((path) => path.endsWith('.md'))
  .map((path) => ({ path, name: relative(ROOT, path), text: readFileSync(path, 'utf8') }));

const withoutCode = (text: string) => text.replace(/^```[\s\S]*?^```/gm, '').replace(/`[^`\n]*`/g, '');

/** The anchors that GitHub gives to the headings of a document. */
function anchorsOf(path: string): string[] {
  const headings = [
    ...readFileSync(path, 'utf8')
      .replace(/^```[\s\S]*?^```/gm, '')
      .matchAll(/^#+ (.+)$/gm),
  ];
  return headings.map(([, title = '']) =>
    title
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );
}

function brokenLinks(path: string, text: string): string[] {
  const targets = [...withoutCode(text).matchAll(/(?:\]\(|src=")([^)"\s]+)[)"]/g)].map(([, target = '']) => target);
  return targets.filter((target) => {
    if (/^[a-z]+:/.test(target)) return false;
    const [file = '', anchor] = target.split('#');
    const found = file === '' ? path : resolve(dirname(path), file);
    if (!existsSync(found)) return true;
    return anchor !== undefined && !anchorsOf(found).includes(anchor);
  });
}

/** Files and folders of the repository that the text names in code, such as `src/app.ts` or `test/vectors/`. */
function pathsNamed(text: string): string[] {
  const named = text.matchAll(/(?<![\w./-])((?:src|test|scripts|docs)\/[\w./-]*\w\/?)/g);
  return [...new Set([...named].map(([, path = '']) => path))];
}

/** The first line of each diagram: its kind, and a graph's direction. */
const mermaidHeads = (text: string) => [...text.matchAll(/^```mermaid\n(.*)$/gm)].map(([, head = '']) => head);

describe.each(documents)('$name', ({ path, text }) => {
  it('links to files and headings that exist', () => {
    expect(brokenLinks(path, text)).toEqual([]);
  });

  it('names files that exist', () => {
    expect(pathsNamed(text).filter((named) => !existsSync(join(ROOT, named)))).toEqual([]);
  });

  it('has pictures of a known kind', () => {
    for (const head of mermaidHeads(text))
      expect(head).toMatch(/^(sequenceDiagram|(graph|flowchart) (TB|TD|BT|LR|RL))$/);
  });
});

describe('the architecture', () => {
  const text = readFileSync(join(ROOT, 'docs/ARCHITECTURE.md'), 'utf8');
  const sources = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' }).map((path) => `/${path}`);

  it('names modules and folders that exist, by the end of their paths', () => {
    const modules = [...text.matchAll(/(?<![\w./-])[\w-]+(?:\/[\w.-]+)*\.tsx?\b/g)].map(([path]) => path);
    const folders = [...text.matchAll(/`([a-z-]+(?:\/[a-z-]+)+)\/?`/g)].map(([, path = '']) => path);
    const isKnown = (path: string) =>
      existsSync(join(ROOT, path)) || sources.some((known) => known.endsWith(`/${path}`));
    expect(modules.length).toBeGreaterThan(30);
    expect([...modules, ...folders].filter((path) => !isKnown(path))).toEqual([]);
  });

  it('names every room and every file above the rooms', () => {
    const rooms = readdirSync(join(ROOT, 'src'), { withFileTypes: true }).map((entry) =>
      entry.isDirectory() ? `${entry.name}/` : entry.name,
    );
    const first = text
      .split('\n')
      .flatMap((line) => /^(\S+\.ts|\S+\/)(?: \S+\.ts)* {2,}/.exec(line)?.[0].trim().split(' ') ?? []);
    expect(rooms.filter((room) => !first.includes(room))).toEqual([]);
  });
});

describe('the gate', () => {
  const text = readFileSync(join(ROOT, 'CONTRIBUTING.md'), 'utf8');
  const rows = text.slice(text.indexOf('### The gate'), text.indexOf('[test/gate.ts]')).split('\n');

  it.each(Object.entries(GATE))('has the proofs that CONTRIBUTING.md names for %s', (subject, proofs) => {
    const row = rows.find((line) => line.includes(`${subject}:`) && line.includes('| gate |')) ?? '';
    expect([...row.matchAll(/`([^`]+)`/g)].map(([, name]) => name)).toEqual([...proofs]);
    expect(proofs.filter((name) => !existsSync(join(ROOT, `test/${name}.proof.ts`)))).toEqual([]);
  });
});

describe('the recipes of CONTRIBUTING.md', () => {
  const text = readFileSync(join(ROOT, 'CONTRIBUTING.md'), 'utf8');
  const examples = [...text.matchAll(/^ *```ts\n([\s\S]*?)^ *```/gm)].map(([, code = '']) =>
    code.replace(/^ {3}/gm, ''),
  );

  it.each([['a step type', 'test/flows/handlers/recipe/greet.ts']])(
    'show for %s the code that a test adds',
    (name, path) => {
      const tested = readFileSync(join(ROOT, path), 'utf8');
      const definitions = examples.flatMap((code) => code.match(/^export const[\s\S]*/m) ?? []);
      expect(
        definitions.filter((code) => tested.includes(code)),
        name,
      ).toHaveLength(1);
    },
  );

  it('show for a column the lines that a test adds', () => {
    const recipe = text.slice(text.indexOf('## Recipe: add a column'));
    const tested = readFileSync(join(ROOT, 'test/store/column.proof.ts'), 'utf8');
    const lines = [...recipe.matchAll(/```(?:ts|sql)\n {3}(.*)\n/g)].map(([, line = '']) => line.trim());
    expect(lines).toHaveLength(6);
    expect(lines.filter((line) => !tested.includes(line))).toEqual([]);
  });
});

describe('the decisions', () => {
  const files = readdirSync(DECISIONS)
    .filter((name) => name !== 'README.md')
    .sort();

  it('are numbered in one row, and all listed', () => {
    expect(files.map((name) => Number(name.slice(0, 4)))).toEqual(files.map((_, at) => at + 1));
    const list = readFileSync(join(DECISIONS, 'README.md'), 'utf8');
    expect(files.filter((name) => !list.includes(`](${name})`))).toEqual([]);
  });

  it.each(files)('say what was decided, why, and what follows, on one page: %s', (name) => {
    const text = readFileSync(join(DECISIONS, name), 'utf8');
    expect(text.match(/^## .+$/gm)).toEqual(['## Context', '## Decision', '## Consequences']);
    expect(text.split('\n').length).toBeLessThan(60);
  });
});

describe('troubleshooting', () => {
  const text = readFileSync(join(ROOT, 'docs/troubleshooting.md'), 'utf8');
  const sectionOf = (title: string) => text.split(/^## /m).find((section) => section.startsWith(title)) ?? '';
  const rowsOf = (title: string) => [...sectionOf(title).matchAll(/^\| `([a-z0-9_]+)` \| (.*) \|$/gm)];

  it('explains each reason, and no other, with the status and event that it has', () => {
    expect(rowsOf('Reasons').map(([, reason]) => reason)).toEqual([...REASON_CODES]);
    for (const [, reason = '', row = ''] of rowsOf('Reasons')) {
      const { statusCode, event } = REASONS[reason as Reason];
      const eventId = event === undefined ? '' : String(EVENTS[event].eventId);
      expect(
        row
          .split(' | ')
          .slice(0, 2)
          .map((cell) => cell.trim()),
        reason,
      ).toEqual([`${statusCode}${isOfGate(reason as Reason) ? '' : ', always'}`, eventId]);
    }
  });

  it('explains each code of a step error, and no other', () => {
    expect(rowsOf('Codes of step errors').map(([, code]) => code)).toEqual([...STEP_ERROR_CODES]);
  });
});
