import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { BUILT_IN_SCHEMES, STANDARD_PUBLISHERS } from '../../src/webhooks/schemes/publishers/index.ts';
import { GRADES } from '../../src/webhooks/schemes/spec.ts';
import { runCli } from './cli.ts';
import { keyOption, useSchemeService } from './scheme-service.ts';

const { workspace, service, send } = useSchemeService();

describe('sluice send', () => {
  // Schemes with values in the URL, the body and special headers; send.proof.ts covers all schemes.
  it.each([
    ['twilio', 'mailgun'],
    ['linear', 'standardwebhooks'],
  ])('signs what is accepted once and no more: %s, %s', async (...slugs) => {
    const sent = await Promise.all(slugs.map((slug) => send(slug, '--repeat', '2')));
    for (const { code, stdout, stderr } of sent) {
      expect(stderr).toBe('');
      expect(stdout).toMatch(/^200 .*\n409 .*"nonce_replayed"/);
      // One of the answers was not 2xx.
      expect(code).toBe(1);
    }
  });

  it('exits with 0 after a 200, and with 1 after a refusal', async () => {
    const [right, wrong] = await Promise.all([send('GITHUB'), send('github', '--wrong-key')]);
    expect(right).toMatchObject({ code: 0, stdout: expect.stringMatching(/^200 \{"runId":/) });
    expect(wrong).toMatchObject({ code: 1, stdout: expect.stringMatching(/^401 .*"signature_mismatch"/) });
  });

  it('sends what the trigger’s own fields ask for: a public URL with a query, a header in capitals, a timestamp', async () => {
    const answers = await Promise.all([
      send('twilio-with-query', '--body', 'manifests/schemes.json'),
      send('nonce-in-capitals'),
      send('named-timestamp'),
    ]);
    for (const { stdout } of answers) expect(stdout).toMatch(/^200 /);
  });

  it('signs with a key that is given: a private one where the trigger has the public one', async () => {
    const sent = await Promise.all([
      send('discord', ...keyOption('Discord')),
      send('github', '--key', 'not the trigger’s'),
      send('twitch'),
    ]);
    expect(sent.map(({ stdout }) => stdout.slice(0, 4))).toEqual(['200 ', '401 ', '200 ']);
  });

  it('sends a body of one’s own from a file or standard input, and headers of one’s own over the sample’s', async () => {
    await writeFile(join(workspace().folder, 'body.bin'), Buffer.from([0, 255, 10]));
    const fromFile = await send('dropbox', '--body', 'body.bin', '--content-type', 'application/octet-stream');
    expect(fromFile.stdout).toMatch(/^200 /);
    const args = ['send', 'github', '--body', '-', '--header', 'X-GitHub-Event: issues', '--id', 'my-id', '--dry-run'];
    const { stdout } = await runCli(workspace(), args, { input: '{"zen":true}' });
    expect(stdout.split('\n')).toEqual(expect.arrayContaining(['x-github-event: issues', 'x-github-delivery: my-id']));
    expect(stdout).toMatch(/\n\n\{"zen":true\}\n$/);
  });

  it.each([
    ['an unknown slug', ['no-such-slug'], 'There is no webhook "no-such-slug"; the webhooks are:\n  ably\n  adyen'],
    ['a slug with a slip', ['githbu'], 'There is no webhook "githbu"; did you mean "github"'],
    ['a service that is not there', ['github', '--to', 'http://127.0.0.1:1'], 'is the service running?'],
    ['a private key that is not given', ['discord'], 'Discord signs with a private key'],
    ['a key that is not there', ['github', '--key', 'env:NO_SUCH_KEY'], '--key: the environment variable NO_SUCH_KEY'],
    ['an unknown option', ['github', '--wrongkey'], "error: unknown option '--wrongkey'\n(Did you mean --wrong-key?)"],
  ])('says what is wrong with %s, in words and exit code 2', async (_, args, message) => {
    const { code, stdout, stderr } = await runCli(workspace(), ['send', ...args]);
    expect(stderr).toContain(message);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  });

  it('tells its options', async () => {
    const { code, stdout } = await runCli(workspace(), ['send', '--help']);
    expect(code).toBe(0);
    for (const option of [
      '--to',
      '--manifests',
      '--body',
      '--content-type',
      '--header',
      '--id',
      '--age',
      '--key',
      '--wrong-key',
    ]) {
      expect(stdout).toContain(`${option} `);
    }
    expect(stdout).toContain('Exits with 0 if every answer is a 2xx, with 1 if not, with 2 if nothing could be sent.');
  });
});

describe('sluice schemes', () => {
  it('lists what the service lists', async () => {
    const [json, table] = await Promise.all([
      runCli(workspace(), ['schemes', '--json']),
      runCli(workspace(), ['schemes']),
    ]);
    const listed: { name: string; aliases: string[] }[] = JSON.parse(json.stdout);
    expect(listed).toEqual(await (await fetch(`${service().url}/flows/api/schemes`)).json());
    const names = [...BUILT_IN_SCHEMES, ...STANDARD_PUBLISHERS].map(({ name }) => name);
    expect(listed.map(({ name }) => name)).toEqual([
      ...names.sort((one, other) => one.localeCompare(other, 'en')),
      'Token',
      'Basic',
      'Jwt',
      'HttpMessageSignatures',
      'Custom',
    ]);
    const lines = table.stdout.trimEnd().split('\n');
    expect(lines[0]).toMatch(/^SCHEME +HEADER +ALGORITHM +TIMESTAMP +ID HEADER +HANDSHAKE +COVERS +GRADE$/);
    const end = lines.indexOf('');
    const titles = lines.slice(1, end).map((line) => line.split('  ', 1).join().replace(' (unconfirmed)', ''));
    // Each further row of a scheme tests another form of key.
    const schemes = titles.filter((title) => !title.includes(', key '));
    const titleOf = (name: string, aliases: string[]) =>
      aliases.length > 2 ? `${name}, … (${aliases.length} more names)` : [name, ...aliases].join(', ');
    expect(schemes).toEqual(listed.map(({ name, aliases }) => titleOf(name, aliases)));
    expect(lines.slice(end + 1).map((line) => line.slice(0, 3))).toEqual(GRADES.map((grade) => `${grade}  `));
  });
});
