import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { z } from 'zod';
import { TextDocument, validate } from '../oracles/github.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const textOf = (...path: string[]) => readFileSync(join(ROOT, ...path), 'utf8');
const filesIn = (folder: string) => readdirSync(join(ROOT, folder)).map((name) => `${folder}/${name}`);

interface Step {
  readonly uses?: string;
  readonly run?: string;
  readonly with?: Readonly<Record<string, unknown>>;
}

interface Workflow {
  readonly on: Readonly<Record<string, unknown>>;
  readonly permissions: Readonly<Record<string, string>>;
  readonly jobs: Readonly<
    Record<string, { readonly 'timeout-minutes': number; readonly permissions?: object; readonly steps: Step[] }>
  >;
}

const WORKFLOWS = filesIn('.github/workflows').map((file) => ({ file, workflow: parse(textOf(file)) as Workflow }));

/** The errors that GitHub's own language service finds in a workflow or an action. */
async function mistakesOf(file: string, text: string): Promise<string[]> {
  // A new URI each time, because the service caches by URI.
  const document = TextDocument.create(`file:///${randomUUID()}/${file}`, 'yaml', 1, text);
  const found = await validate(document);
  return found.map(({ range, message }) => `${file}:${range.start.line + 1} ${message}`);
}

it.each([...WORKFLOWS.map(({ file }) => file), 'action.yml'])('%s fits the schema of GitHub', async (file) => {
  expect(await mistakesOf(file, textOf(file))).toEqual([]);
});

it.each([
  ['an unknown key', 'timeout-minutes:', 'timeout-minuts:'],
  ['an unknown context', 'matrix.node', 'matrx.node'],
  ['an unknown right', 'contents: read', 'content: read'],
])('%s in a workflow would be found', async (_, right, wrong) => {
  const file = '.github/workflows/check.yml';
  const text = textOf(file);
  expect(text).toContain(right);
  expect(await mistakesOf(file, text.replaceAll(right, wrong))).not.toEqual([]);
});

/** Other people's actions that a text uses, each with the comment after it. */
const actionsIn = (text: string) => [...text.matchAll(/uses: (?!\.\/)(.*)$/gm)].map(([, action = '']) => action);
/** A commit, with the version for readers. */
const BY_COMMIT = /^[\w.-]+\/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/;

describe('the workflows and the action', () => {
  const texts = [...WORKFLOWS.map(({ file }) => textOf(file)), textOf('action.yml')];

  it('name actions of others by their commits, and one action by one commit', () => {
    const actions = texts.flatMap(actionsIn);
    expect(actions.length).toBeGreaterThan(10);
    expect(actions.filter((action) => !BY_COMMIT.test(action))).toEqual([]);
    const pins = actions.map((action) => {
      const [name = '', commit] = action.split('@');
      return [name.split('/').slice(0, 2).join('/'), commit] as const;
    });
    const pinned = new Map(pins);
    expect(pins.filter(([repository, commit]) => pinned.get(repository) !== commit)).toEqual([]);
  });

  it('put no text that others can write into a command', () => {
    const parsed = texts.map((text) => parse(text));
    const steps = parsed.flatMap(({ jobs, runs }) =>
      jobs === undefined ? runs.steps : Object.values<{ steps: Step[] }>(jobs).flatMap((job) => job.steps),
    );
    const commands = steps.flatMap(({ run }: Step) => run ?? []);
    expect(commands.length).toBeGreaterThan(8);
    expect(commands.filter((command) => command.includes('${'.concat('{')))).toEqual([]);
  });

  it('hold no secret, and name none but the token that GitHub makes', () => {
    for (const text of texts) {
      expect(text).not.toMatch(/\$\{\{[^}]*\bsecrets\b/);
      expect(text).not.toMatch(/\b(ghp|gho|ghs|npm|github_pat)_\w{10,}|-----BEGIN/);
    }
  });
});

describe.each(WORKFLOWS)('$file', ({ workflow }) => {
  const jobs = Object.values(workflow.jobs);

  it('may only read, unless a job says more', () => {
    expect(workflow.permissions).toEqual({ contents: 'read' });
  });

  it('never runs code of a pull request with rights of the repository', () => {
    expect(Object.keys(workflow.on)).not.toContain('pull_request_target');
    expect(Object.keys(workflow.on)).not.toContain('workflow_run');
    if (!('pull_request' in workflow.on)) return;
    const mayWrite = jobs.filter(({ permissions = {} }) =>
      Object.keys(permissions).some((name) => name !== 'contents'),
    );
    for (const { steps } of mayWrite) {
      // CodeQL reads the code and runs none of it.
      const runs = steps.filter(({ run }) => run !== undefined);
      const checkout = steps.find(({ uses = '' }) => uses.startsWith('actions/checkout@'));
      if (runs.length > 0) expect(checkout?.with?.ref).toMatch(/pull_request\.base\.sha/);
    }
  });

  it('ends by itself, and leaves no token in the checkout', () => {
    for (const job of jobs) {
      expect(job['timeout-minutes']).toBeGreaterThan(0);
      const checkouts = job.steps.filter(({ uses = '' }) => uses.startsWith('actions/checkout@'));
      for (const checkout of checkouts) expect(checkout.with).toMatchObject({ 'persist-credentials': false });
    }
  });
});

describe('.github/workflows/check.yml', () => {
  const text = textOf('.github/workflows/check.yml');

  it('runs .ci/run on the lines of Node that package.json supports', () => {
    const { engines, devDependencies } = JSON.parse(textOf('package.json'));
    const lines = parse(text).jobs.check.strategy.matrix.node as string[];
    expect(`>=${lines[0]?.replace(/\.0$/, '')}`).toBe(engines.node);
    expect(lines).toContain(devDependencies.node.split('.')[0]);
    expect(text).toContain('run: .ci/run');
    expect(text).toContain(`image: node:${devDependencies.node}-bookworm@sha256:`);
  });
});

describe('.github/dependabot.yml', () => {
  const schedule = z.strictObject({ interval: z.enum(['daily', 'weekly', 'monthly']) });
  const group = z.strictObject({
    'dependency-type': z.enum(['production', 'development']).optional(),
    'update-types': z.array(z.enum(['major', 'minor', 'patch'])).optional(),
    patterns: z.array(z.string()).optional(),
  });
  // docs.github.com/code-security/reference/supply-chain-security/dependabot-options-reference, only the used part.
  const schema = z.strictObject({
    version: z.literal(2),
    updates: z.array(
      z.strictObject({
        'package-ecosystem': z.enum(['npm', 'github-actions', 'docker', 'docker-compose']),
        directory: z.string().startsWith('/'),
        schedule,
        'open-pull-requests-limit': z.int().optional(),
        groups: z.record(z.string().regex(/^[a-z][a-z-]*$/), group).optional(),
        ignore: z.array(z.strictObject({ 'dependency-name': z.string() })).optional(),
      }),
    ),
  });

  it('has the form that GitHub asks for, and watches everything that is pinned', () => {
    const { updates } = schema.parse(parse(textOf('.github/dependabot.yml')));
    expect(updates.map((one) => `${one['package-ecosystem']} ${one.directory}`).sort()).toEqual([
      'docker /docker',
      'docker-compose /docker',
      'github-actions /',
      'npm /',
      'npm /test/oracles',
    ]);
    for (const { directory, ignore = [] } of updates) {
      for (const one of ignore) {
        const { devDependencies } = JSON.parse(textOf(`.${directory}`, 'package.json'));
        expect(Object.keys(devDependencies)).toContain(one['dependency-name']);
      }
    }
  });
});

describe('the forms for issues', () => {
  const required = z.strictObject({ required: z.boolean() }).optional();
  const id = z.string().regex(/^[\w-]+$/);
  const told = { label: z.string().min(1), description: z.string().optional() };
  const element = z.discriminatedUnion('type', [
    z.strictObject({ type: z.literal('markdown'), attributes: z.strictObject({ value: z.string().min(1) }) }),
    z.strictObject({
      type: z.literal('textarea'),
      id,
      attributes: z.strictObject({ ...told, placeholder: z.string().optional(), render: z.string().optional() }),
      validations: required,
    }),
    z.strictObject({
      type: z.literal('input'),
      id,
      attributes: z.strictObject({ ...told, placeholder: z.string().optional() }),
      validations: required,
    }),
    z.strictObject({
      type: z.literal('dropdown'),
      id,
      attributes: z.strictObject({ ...told, options: z.array(z.string()).min(1) }),
      validations: required,
    }),
  ]);
  // docs.github.com/communities/using-templates-to-encourage-useful-issues-and-pull-requests/syntax-for-issue-forms
  const form = z.strictObject({
    name: z.string().min(3),
    description: z.string().min(3),
    labels: z.array(z.string()),
    body: z.array(element).min(1),
  });
  const files = filesIn('.github/ISSUE_TEMPLATE').filter((file) => !file.endsWith('config.yml'));

  it.each(files)('%s has the form that GitHub asks for', (file) => {
    const { body } = form.parse(parse(textOf(file)));
    const ids = body.flatMap((one) => ('id' in one ? one.id : []));
    expect(ids.length).toBeGreaterThan(0);
    expect(new Set(ids).size).toBe(ids.length);
  });
});
