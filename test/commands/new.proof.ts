import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { PassThrough } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { commandLine } from '../../src/commands/program.ts';
import { atTerminal, type Person } from '../../src/features/new/person.ts';
import { knownPublishers } from '../../src/features/new/publishers.ts';
import { gatherAnswers } from '../../src/features/new/write-new.ts';
import { BUILT_IN_SCHEMES, STANDARD_PUBLISHERS } from '../../src/webhooks/schemes/publishers/index.ts';
import { buildApp } from '../database.ts';
import { createWorkspace, type Service, startService, type Workspace } from '../e2e/service.ts';
import { temporaryFolder } from '../temporary.ts';
import { KEYS } from '../webhooks/schemes/fixtures.ts';

const publishers = knownPublishers();

let folder: string;
let printed: string;
beforeEach(async () => {
  folder = temporaryFolder('new');
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
});

/** Runs `sluice new` for the folder, without a terminal; returns its exit code. */
async function run(...args: string[]): Promise<number> {
  await commandLine().parseAsync(['node', 'sluice', 'new', '--manifests', folder, ...args]);
  return Number(process.exitCode ?? 0);
}

const readManifest = async (name: string) => JSON.parse(await readFile(join(folder, name), 'utf8'));

describe('sluice new', () => {
  it('knows every built-in scheme', () => {
    const known = publishers.map(({ inputs }) => inputs.webhookSignatureScheme).sort();
    const shared = ['HttpMessageSignatures'];
    expect(known).toEqual([...[...BUILT_IN_SCHEMES, ...STANDARD_PUBLISHERS].map(({ name }) => name), ...shared].sort());
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
        environment[name] = KEYS[String(inputs.webhookSignatureScheme)] ?? `the:key ${name}`;
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
  }, 120_000);

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

  it('writes the URL of the trigger into a field that asks for it', async () => {
    await run('--publisher', 'monday', '--slug', 'boards');
    expect(printed).toContain('the full URL here, and put it into the manifest\n');
    const { triggers } = await readManifest('boards.json');
    expect(Object.values(triggers)).toMatchObject([
      { inputs: { webhookJwtAudience: 'https://YOUR-HOST/flows/api/webhook/boards' } },
    ]);
  });

  it('takes the longest slug', async () => {
    expect(await run('--publisher', 'generic', '--slug', 's'.repeat(128)), printed).toBe(0);
  });

  it('finds a publisher by the beginning of its name', async () => {
    await run('--publisher', 'strip');
    expect((await readManifest('stripe.json')).triggers.stripe.inputs.webhookSignatureScheme).toBe('Stripe');
  });

  it('writes a first step that sends each delivery on', async () => {
    await run('--publisher', 'github', '--forward', 'http://127.0.0.1:8080/in');
    expect((await readManifest('github.json')).steps).toEqual({
      forward: {
        type: 'HttpRequest',
        inputs: { url: 'http://127.0.0.1:8080/in', method: 'POST', forwardBody: true },
        retry: { maxAttempts: 5, backoffSeconds: 2 },
      },
    });
    expect(printed).toContain('SLUICE_EGRESS_ALLOW=127.0.0.1');
  });

  it('makes up a key in the form of the scheme, writes it to the file of variables and nowhere else', async () => {
    const file = join(folder, 'variables');
    await writeFile(file, 'OTHER=1');
    const start = ['node', 'sluice', '--env-file', file, 'new', '--manifests', folder];
    await commandLine().parseAsync([...start, '--publisher', 'github', '--generate-key']);
    await commandLine().parseAsync([...start, '--publisher', 'standard', '--generate-key']);
    const [other, key = '', another = ''] = (await readFile(file, 'utf8')).trim().split('\n');
    expect(other).toBe('OTHER=1');
    expect(key).toMatch(/^GITHUB_WEBHOOK_SECRET=[0-9a-f]{64}$/);
    expect(another).toMatch(/=whsec_[A-Za-z0-9+/]{43}=$/);
    expect(printed).toContain(`made up and written to ${file} as GITHUB_WEBHOOK_SECRET`);
    const written = await Promise.all(
      (await readdir(folder))
        .filter((name) => name.endsWith('.json'))
        .map((name) => readFile(join(folder, name), 'utf8')),
    );
    for (const line of [key, another]) expect([printed, ...written].join()).not.toContain(line.split(/=(.*)/)[1]);
  });

  it('makes up no key over one that is set', async () => {
    vi.stubEnv('GITHUB_WEBHOOK_SECRET', 'one that is set');
    expect(await run('--publisher', 'github', '--generate-key')).toBe(2);
    vi.unstubAllEnvs();
    expect(printed).toContain('GITHUB_WEBHOOK_SECRET is already set and is not changed');
    expect(await readdir(folder)).toEqual([]);
  });

  it.each([
    ['github', 'npx sluice send github '],
    ['discord', 'let Discord send    it alone has the private key'],
    ['paypal', 'let PayPal send    it alone has the private key'],
    ['asana', 'let Asana send    it hands the key over first'],
  ])('promises no delivery of %s that cannot be signed', async (name, line) => {
    await run('--publisher', name);
    expect(printed).toContain(line);
    expect(printed.includes('npx sluice send')).toBe(name === 'github');
  });

  it('never overwrites a file', async () => {
    await writeFile(join(folder, 'github.json'), 'mine');
    expect(await run('--publisher', 'GitHub')).toBe(2);
    expect(printed).toContain('already exists and is not changed');
    expect(await readFile(join(folder, 'github.json'), 'utf8')).toBe('mine');
  });

  it.each([
    ['a publisher that there is not', ['--publisher', 'strpe'], 'did you mean "Stripe"?'],
    ['no publisher', [], '--publisher is missing, and there is no terminal to ask at'],
    [
      'a beginning that several have',
      ['--publisher', 'git'],
      '"git" may be Gitea, GitHub, GitHubLegacy, GitLab; write more',
    ],
    ['a URL that is not one', ['--publisher', 'github', '--forward', 'erp'], '--forward: expected a URL'],
    ['a key that the publisher makes', ['--publisher', 'stripe', '--generate-key'], 'Stripe shows a key of its own'],
    ['a key in a file', ['--publisher', 'github', '--key', 'file:k', '--generate-key'], 'is not in a variable'],
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

describe('beside a running service', () => {
  let workspace: Workspace;
  let service: Service;
  beforeEach(async () => {
    workspace = await createWorkspace();
    service = await startService(workspace);
  });
  afterEach(() => service.stop('SIGTERM'));
  /** As a person would in the service's folder. */
  const runThere = (...args: string[]) => {
    const there = [
      '--env-file',
      join(workspace.folder, '.env'),
      'new',
      '--manifests',
      join(workspace.folder, 'manifests'),
    ];
    return commandLine().parseAsync(['node', 'sluice', ...there, '--to', service.url, ...args]);
  };
  const deployed = async () =>
    ((await (await fetch(`${service.url}/flows/api/flows`)).json()) as { name: string }[]).map(({ name }) => name);

  it('sluice new has it deploy the flow with the key that was made up', async () => {
    await runThere('--publisher', 'github', '--generate-key');
    expect(printed).toContain('Deployed by the service that answers, as revision 1.');
    const signature = `sha256=${'0'.repeat(64)}`;
    const answer = await fetch(`${service.url}/flows/api/webhook/github`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-hub-signature-256': signature },
      body: '{}',
    });
    expect(await answer.json()).toMatchObject({ reason: 'signature_mismatch' });
  });

  it('says what the service lacks for a flow that it cannot read yet', async () => {
    await runThere('--publisher', 'stripe');
    expect(printed).toMatch(/Not deployed: .*STRIPE_WEBHOOK_SECRET is not set/);
  });

  it('deploys nothing where somebody else changed another manifest, or where it is told not to', async () => {
    await runThere('--publisher', 'github', '--generate-key', '--no-deploy');
    expect(printed).not.toContain('eployed by');
    await runThere('--publisher', 'generic', '--generate-key');
    expect(printed).toContain('Not deployed: other manifests of the folder changed too');
    expect(await deployed()).toEqual([]);
  });
});

const OTHER = {
  id: '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a10',
  version: '1',
  triggers: { hook: { type: 'webhook', inputs: { webhookSlug: 'in' } } },
  steps: { a: { type: 'NoOp' } },
};

describe('sluice new --from', () => {
  const SECRET = 'a value that nobody may see';
  const give = async (value: unknown, name = 'export.json') => {
    const file = join(folder, '..', `${basename(folder)}-${name}`);
    await writeFile(file, typeof value === 'string' ? value : JSON.stringify(value));
    given.push(file);
    return file;
  };
  const given: string[] = [];
  afterEach(() => Promise.all(given.splice(0).map((file) => rm(file))));
  const source = (name: string, more: object) => ({ id: name, name, type: 'WEBHOOK', config: {}, ...more });
  const inputsOf = async (slug: string) =>
    Object.values((await readManifest(`${slug}.json`)).triggers as Record<string, { inputs: object }>)[0]?.inputs;

  it('writes a trigger for each source, that a start takes, and says which value goes where without it', async () => {
    const auth = { algorithm: 'sha1', encoding: 'hex', header_key: 'x-mac', webhook_secret_key: SECRET };
    const file = await give({
      models: [
        source('Stripe live', { type: 'STRIPE', config: { auth: { webhook_secret_key: SECRET } } }),
        source('Ours', { config: { auth_type: 'HMAC', auth } }),
        source('Meta', { type: 'META', config: { auth: { webhook_secret_key: SECRET } } }),
        source('Square', { type: 'SQUARE', config: { auth: { webhook_secret_key: SECRET } } }),
        source('Open', {}),
      ],
    });
    expect(await run('--from', 'hookdeck', file), printed).toBe(0);
    expect(await inputsOf('stripe-live')).toMatchObject({
      webhookSignatureScheme: 'Stripe',
      webhookHmacKey: 'env:STRIPE_LIVE_KEY',
      webhookEnforcementMode: 'Enforce',
    });
    expect(await inputsOf('meta')).toMatchObject({ webhookVerifyToken: 'env:META_TOKEN' });
    expect(printed).toContain('config.auth.webhook_secret_key of the file, into the variable STRIPE_LIVE_KEY');
    const written = await Promise.all((await readdir(folder)).map((name) => readFile(join(folder, name), 'utf8')));
    expect([printed, ...written].join()).not.toContain(SECRET);
    const names = ['STRIPE_LIVE_KEY', 'OURS_KEY', 'META_KEY', 'META_TOKEN', 'SQUARE_KEY'];
    const environment = Object.fromEntries(names.map((name) => [name, 'a key of at least sixteen bytes']));
    const settings = { manifests: folder, databaseUrl: 'sqlite::memory:', logLevel: 'silent' as const };
    const app = await buildApp({ environment, settings });
    expect(app.triggers().list()).toHaveLength(5);
  });

  it('says of a source that verifies nothing what `check` says of its trigger', async () => {
    expect(await run('--from', 'hookdeck', await give(source('open', {})))).toBe(0);
    expect(await inputsOf('open')).toEqual({ webhookSlug: 'open', webhookEnforcementMode: 'Enforce' });
    expect(printed).toContain('triggers.open: has no gate: anyone who reaches the URL starts runs');
  });

  it('ends with 1 where something has no place here, and says what', async () => {
    const file = await give([source('a', { type: 'GITHUB' }), source('b', { type: 'AKENEO' })]);
    expect(await run('--from', 'hookdeck', file)).toBe(1);
    expect(await readdir(folder)).toEqual(['a.json', 'manifest.schema.json']);
    expect(printed).toContain('Left out: the source "b": Sluice has no scheme for "AKENEO"');
  });

  it('takes slug, key, mode, name and first step as options', async () => {
    const file = await give(source('a', { type: 'GITHUB' }));
    const options = ['--slug', 'gh', '--key', 'file:keys/gh', '--mode', 'audit', '--name', 'Hub'];
    expect(await run('--from', 'hookdeck', file, ...options, '--forward', 'https://erp.example/in'), printed).toBe(0);
    expect(await inputsOf('gh')).toMatchObject({ webhookHmacKey: 'file:keys/gh', webhookEnforcementMode: 'Audit' });
    expect(await readManifest('gh.json')).toMatchObject({ name: 'Hub', steps: { forward: { type: 'HttpRequest' } } });
  });

  it('gives two sources of one name slugs and variables of their own', async () => {
    const file = await give([source('Hub!', { id: '1', type: 'GITHUB' }), source('hub', { id: '2', type: 'GITHUB' })]);
    expect(await run('--from', 'hookdeck', file)).toBe(0);
    expect([await inputsOf('hub'), await inputsOf('hub-2')]).toMatchObject([
      { webhookHmacKey: 'env:HUB_KEY' },
      { webhookHmacKey: 'env:HUB_2_KEY' },
    ]);
  });

  it('takes no variable that another flow reads, and no slug that only an id may be', async () => {
    await run('--publisher', 'github', '--key', 'env:HUB_KEY');
    const id = 'd9b2d63d-a233-4123-847a-7090f3b3b3b3';
    const file = await give([
      source('hub', { type: 'GITHUB' }),
      source(id, { type: 'GITHUB' }),
      source('1a', { type: 'GITHUB' }),
    ]);
    expect(await run('--from', 'hookdeck', file), printed).toBe(0);
    expect([await inputsOf('hub'), await inputsOf(`webhook-${id}`), await inputsOf('1a')]).toMatchObject([
      { webhookHmacKey: 'env:HUB_KEY_2' },
      { webhookHmacKey: 'env:WEBHOOK_D9B2D63D_A233_4123_847A_7090F3B3B3B3_KEY' },
      { webhookHmacKey: 'env:_1A_KEY' },
    ]);
  });

  it('takes a name of any length and any letters', async () => {
    const long = source(`Ünïcode ${'x'.repeat(5000)}`, { type: 'GITHUB' });
    expect(await run('--from', 'hookdeck', await give(long)), printed).toBe(0);
    expect(await run('--from', 'hookdeck', await give(source('名前', { type: 'GITHUB' }))), printed).toBe(0);
    const files = ['manifest.schema.json', `unicode-${'x'.repeat(56)}.json`, 'webhook.json'];
    expect((await readdir(folder)).sort()).toEqual(files);
  });

  it('writes all or nothing', async () => {
    await writeFile(join(folder, 'b.json'), JSON.stringify(OTHER));
    const file = await give([source('a', { type: 'GITHUB' }), source('b', { type: 'GITHUB' })]);
    expect(await run('--from', 'hookdeck', file)).toBe(2);
    expect(printed).toContain('b.json already exists and is not changed');
    expect((await readdir(folder)).filter((name) => !name.includes('schema'))).toEqual(['b.json']);
  });

  it('says of a name of the file nothing that steers a terminal', async () => {
    await run('--from', 'hookdeck', await give(source('\u001b[31mred', { type: '\u001b[2JX' })));
    await run('--from', 'hookdeck', await give(source('\u001b[31mred', { type: 'GITHUB' })));
    expect(printed).not.toContain('\u001b');
  });

  it.each([
    ['a file that is not there', ['--from', 'hookdeck', '/nowhere/x.json'], 'ENOENT'],
    ['no file', ['--from', 'hookdeck'], 'name the file'],
    ['a file without --from', ['x.json'], 'is read with --from hookdeck|svix|n8n|ngrok'],
    ['a publisher besides', ['--from', 'svix', 'x', '--publisher', 'github'], 'the file says who sends'],
    ['a key to make up', ['--from', 'svix', 'x', '--generate-key'], 'has a key already'],
    ['a key in plain text', ['--from', 'svix', 'x', '--key', SECRET], 'expected env:NAME or file:PATH'],
    ['a URL that is not one', ['--from', 'svix', 'x', '--forward', 'erp'], '--forward: expected a URL'],
  ])('writes nothing for %s', async (_, args, message) => {
    expect(await run(...args)).toBe(2);
    expect(printed).toContain(message);
    expect(printed).not.toContain(SECRET);
    expect(await readdir(folder)).toEqual([]);
  });

  it.each([
    ['that is too large', 'x'.repeat(4 * 1024 * 1024 + 1), 'larger than 4 MiB'],
    ['of another form', { nodes: 7 }, 'there is no source in it'],
    ['of code', `createHmac('sha256', '${SECRET}').update(body)`, 'has no JSON object or list'],
    ['where everything is left out', source('b', { type: 'AKENEO' }), 'Left out: the source "b"'],
  ])('writes nothing for a file %s', async (_, value, message) => {
    expect(await run('--from', 'hookdeck', await give(value))).toBe(2);
    expect(printed).toContain(message);
    expect(printed).not.toContain(SECRET);
    expect(await readdir(folder)).toEqual([]);
  });
});

describe('the questions', () => {
  /** A person who gives these answers in order: a choice's label, a text, or yes or no. */
  const personOf = (...answers: (string | boolean)[]) => {
    const asked: string[] = [];
    const next = (message: string) => {
      asked.push(message);
      return answers.shift();
    };
    const person: Person = {
      async choose(message, choices) {
        const answer = next(message);
        const choice = choices.find(({ label }) => label === answer);
        if (choice === undefined) throw new Error(`there is no choice ${answer}`);
        return choice.value;
      },
      async enter(message, proposal, mistakeIn) {
        for (;;) {
          const text = String(next(message) || proposal);
          if (mistakeIn(text) === undefined) return text;
        }
      },
      confirm: async (message) => next(message) === true,
    };
    return { person, asked };
  };
  const known = { publishers, flows: [], environment: {} };

  it('are asked until the answer is one, and take what is proposed for an empty answer', async () => {
    const { person, asked } = personOf('Slack', '', 'xoxb-1', '', 'Audit', 'Log it');
    const { publisher, ...answers } = await gatherAnswers({}, { ...known, person });
    expect(publisher.title).toBe('Slack');
    expect(answers).toEqual({
      slug: 'slack',
      key: 'env:SLACK_SIGNING_SECRET',
      generatedKey: undefined,
      mode: 'Audit',
      forward: undefined,
      name: 'Slack',
    });
    expect(asked.map((question) => question.split(/[ (:]/)[0])).toEqual([
      'Who',
      'Last',
      'Where',
      'Where',
      'Mode',
      'What',
    ]);
  });

  it('offer to make up a key where the receiver chooses it, and ask for the URL of a first step', async () => {
    const { person, asked } = personOf(
      'GitHub',
      '',
      '',
      true,
      'Enforce',
      'Send it on to a URL of yours',
      'ftp://a',
      'https://erp.example/in',
    );
    const answers = await gatherAnswers({}, { ...known, person });
    expect(answers).toMatchObject({ generatedKey: 'GITHUB_WEBHOOK_SECRET', forward: 'https://erp.example/in' });
    expect(asked.at(-1)).toBe('URL');
    const { person: again, asked: less } = personOf('GitHub', '', '', 'Enforce', 'Log it');
    await gatherAnswers({}, { ...known, environment: { GITHUB_WEBHOOK_SECRET: 'x' }, person: again });
    expect(less).toHaveLength(5);
  });

  it('leave out what an option says, and the key where the publisher hands it over', async () => {
    const { person, asked } = personOf('asana-1', 'Log it');
    const given = { publisher: 'asana', mode: 'enforce' };
    const answers = await gatherAnswers(given, { ...known, person });
    expect(answers).toMatchObject({ slug: 'asana-1', key: undefined, mode: 'Enforce', name: 'Asana asana-1' });
    expect(asked).toHaveLength(2);
  });
});

describe('a terminal', () => {
  /** Types one key after the other; each prompt reads the keys typed since it appeared. */
  async function type(use: (person: Person) => Promise<unknown>, ...keys: string[]) {
    const input = new PassThrough();
    const output = new PassThrough();
    let shown = '';
    const write = () => {
      const key = keys.shift();
      if (key !== undefined) input.write(key);
    };
    output.on('data', (data) => {
      shown += data;
      setImmediate(write);
    });
    const person = await atTerminal({ input, output });
    return { answer: await use(person), shown };
  }
  const choices = publishers.map(({ names }) => ({ value: names[0], label: names[0] ?? '', names }));
  const ENTER = '\r';

  it.each([
    ['strip', 'Stripe'],
    ['git hub', 'GitHub'],
    ['standard w', 'StandardWebhooks'],
  ])('finds by %j the publisher %s', async (typed, name) => {
    const { answer, shown } = await type((person) => person.choose('Who sends?', choices), ...typed, ENTER);
    expect(answer).toBe(name);
    expect(shown).toContain('Who sends?');
  });

  it('takes the proposal for an empty answer, and asks again after a mistake', async () => {
    const mistakeIn = (text: string) => (text === 'x' ? 'is taken' : undefined);
    const { answer } = await type((person) => person.enter('URL', 'orders', mistakeIn), ENTER);
    expect(answer).toBe('orders');
    const again = await type((person) => person.enter('URL', 'orders', mistakeIn), 'x', ENTER, 'y', ENTER);
    expect(again).toMatchObject({ answer: 'xy', shown: expect.stringContaining('is taken') });
  });

  it.each([
    ['Ctrl-C', '\u0003'],
    ['Ctrl-D', '\u0004'],
  ])('is left with %s: nothing is written', async (_, key) => {
    await expect(type((person) => person.confirm('Sure?'), key)).rejects.toThrow('Nothing was written');
    await expect(type((person) => person.enter('URL', '', () => undefined), key)).rejects.toThrow(
      'Nothing was written',
    );
    await expect(type((person) => person.choose('Who sends?', choices), key)).rejects.toThrow('Nothing was written');
  });
});
