import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { buildApp } from '../../src/app.ts';
import { gatherAnswers, readPublishers } from '../../src/commands/new.ts';
import { commandLine } from '../../src/commands/program.ts';
import { BUILT_IN_SCHEMES } from '../../src/webhooks/schemes/publishers/index.ts';
import { KEYS } from '../webhooks/schemes/fixtures.ts';

const publishers = readPublishers();

let folder: string;
let printed: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-new-'));
  printed = '';
  for (const stream of [process.stdout, process.stderr]) {
    vi.spyOn(stream, 'write').mockImplementation((text) => {
      printed += String(text);
      return true;
    });
  }
});
afterEach(async () => {
  vi.restoreAllMocks();
  process.exitCode = undefined;
  await rm(folder, { recursive: true });
});

/** Runs `sluice new` for the folder, with nobody at a terminal; yields its exit code. */
async function run(...args: string[]): Promise<number> {
  await commandLine().parseAsync(['node', 'sluice', 'new', '--manifests', folder, ...args]);
  return Number(process.exitCode ?? 0);
}

const readManifest = async (name: string) => JSON.parse(await readFile(join(folder, name), 'utf8'));

describe('sluice new', () => {
  it('knows every built-in scheme', () => {
    const known = publishers.map(({ inputs }) => inputs.webhookSignatureScheme).sort();
    expect(known).toEqual(BUILT_IN_SCHEMES.map(({ name }) => name).sort());
  });

  it('writes for each publisher a manifest that a start takes, and says where URL and key go', async () => {
    const environment: Record<string, string> = {};
    for (const { names, inputs } of publishers) {
      printed = '';
      expect(await run('--publisher', names[0] ?? '', '--mode', 'Audit'), printed).toBe(0);
      expect(printed).toContain(`https://YOUR-HOST/flows/api/webhook/${inputs.webhookSlug}`);
      expect(printed).toContain('At the publisher');
      expect(printed).not.toContain('hooks.example.com');
      for (const [, name = ''] of printed.matchAll(/^Key: {2}into the variable (\w+),/gm)) {
        environment[name] = KEYS[String(inputs.webhookSignatureScheme)] ?? `the key ${name}`;
      }
    }
    const settings = { manifests: folder, databaseUrl: 'sqlite::memory:', logLevel: 'silent' as const };
    const app = await buildApp({ environment, settings });
    expect(
      app
        .triggers()
        .list()
        .map(({ mode }) => mode),
    ).toEqual(publishers.map(() => 'Audit'));
    const ids = app.catalog.list().map(({ record }) => record.id);
    expect(new Set(ids).size).toBe(publishers.length);
    await app.close();
  });

  it('takes slug, key, mode and name as options', async () => {
    await run(
      '--publisher',
      'stripe',
      '--slug',
      'pay',
      '--key',
      'file:keys/pay',
      '--mode',
      'off',
      '--name',
      'Payments',
    );
    const { name, triggers } = await readManifest('pay.json');
    expect(name).toBe('Payments');
    expect(triggers.stripe.inputs).toMatchObject({
      webhookSlug: 'pay',
      webhookHmacKey: 'file:keys/pay',
      webhookEnforcementMode: 'Off',
    });
    expect(printed).toContain('Key:  into the file keys/pay');
  });

  it('never overwrites a file', async () => {
    await writeFile(join(folder, 'github.json'), 'mine');
    expect(await run('--publisher', 'GitHub')).toBe(2);
    expect(printed).toContain('already exists and is not changed');
    expect(await readFile(join(folder, 'github.json'), 'utf8')).toBe('mine');
  });

  it.each([
    ['a publisher that there is not', ['--publisher', 'strpe'], 'did you mean "Stripe"?'],
    ['no publisher', [], '--publisher is missing'],
    ['a key in plain text', ['--publisher', 'stripe', '--key', 'whsec_abc'], 'expected env:NAME or file:PATH'],
    ['a mode that there is not', ['--publisher', 'stripe', '--mode', 'on'], 'is not one of Off, Audit, Enforce'],
    ['a slug that no URL can have', ['--publisher', 'stripe', '--slug', '../stripe'], 'is not a slug'],
    [
      'a slug whose file would not be read',
      ['--publisher', 'stripe', '--slug', 'my.schema'],
      'would count as a schema',
    ],
  ])('writes nothing for %s', async (_, args, message) => {
    expect(await run(...args)).toBe(2);
    expect(printed).toContain(message);
    expect(printed).not.toContain('whsec_abc');
    expect(await readdir(folder)).toEqual([]);
  });

  it('writes no second webhook with the same slug', async () => {
    await run('--publisher', 'generic', '--slug', 'in');
    await rm(join(folder, 'in.json')).then(() => writeFile(join(folder, 'other.json'), JSON.stringify(OTHER)));
    expect(await run('--publisher', 'generic', '--slug', 'IN')).toBe(2);
    expect(printed).toContain('the slug "IN" is taken');
  });
});

const OTHER = {
  id: '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a10',
  version: '1',
  triggers: { hook: { type: 'webhook', inputs: { webhookSlug: 'in' } } },
  steps: { a: { type: 'NoOp' } },
};

describe('the questions', () => {
  /** A person who gives these answers, one after the other. */
  const person = (...answers: string[]) => {
    const asked: string[] = [];
    const ask = async (question: string) => {
      asked.push(question);
      return answers.shift() ?? '';
    };
    return { ask, asked };
  };

  it('are asked until the answer is one, and take what is proposed for an empty answer', async () => {
    const { ask, asked } = person('slak', 'slack', '', 'xoxb-1', '', 'Audit');
    const { publisher, ...answers } = await gatherAnswers({}, { publishers, flows: [], ask });
    expect(publisher.title).toBe('Slack');
    expect(answers).toEqual({ slug: 'slack', key: 'env:SLACK_SIGNING_SECRET', mode: 'Audit', name: 'Slack' });
    expect(asked.map((question) => question.split(/[ (:]/)[0])).toEqual([
      'Publisher',
      'Publisher',
      'Last',
      'Where',
      'Where',
      'Mode',
    ]);
  });

  it('leave out what an option says, and the key where the publisher hands it over', async () => {
    const { ask, asked } = person('asana-1');
    const given = { publisher: 'asana', mode: 'enforce' };
    const answers = await gatherAnswers(given, { publishers, flows: [], ask });
    expect(answers).toMatchObject({ slug: 'asana-1', key: undefined, mode: 'Enforce', name: 'Asana asana-1' });
    expect(asked).toHaveLength(1);
  });
});
