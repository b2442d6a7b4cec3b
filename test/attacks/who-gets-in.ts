import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import { eventually, startService, written } from '../e2e/service.ts';
import type { Attack } from './attack.ts';
import { github, idOf, LOGIN, type Slug, type Target, TOKENS } from './target.ts';

const encoded = (text: string) => Buffer.from(text).toString('base64url');

/** A change to a session's cookie: name of the credential, id, end and code, joined by dots. */
type Forgery = (parts: readonly string[]) => string;

const FORGERIES: Readonly<Record<string, Forgery>> = {
  'of the user with all scopes': ([, id, until, code]) => [encoded('user'), id, until, code].join('.'),
  'of a token with more scopes': ([, id, until, code]) => [encoded('named deployer'), id, until, code].join('.'),
  'that lasts longer': ([who, id, until, code]) => [who, id, Number(until) + 86_400_000, code].join('.'),
  'with another id': ([who, , until, code]) => [who, '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a10', until, code].join('.'),
  'without a code': ([who, id, until]) => [who, id, until, ''].join('.'),
};

const forgedSession = ([what, forge]: [string, Forgery]): Attack => ({
  rule: 'a session belongs to the credential that was proven',
  attack: `makes a session ${what} from its own`,
  async run(target) {
    const cookie = await target.logIn('reader');
    const [name = '', value = ''] = cookie.split('=');
    const look = (headers: Record<string, string>) => target.ask('runs', { headers });
    expect(await look({ cookie })).toMatchObject({ status: 200 });
    expect(await look({ cookie: `${name}=${forge(value.split('.'))}` })).toMatchObject({ status: 401 });
  },
});

/** Each is refused because it widens access, and leaves the deployed flow unchanged. */
const WIDER: Readonly<Record<string, Parameters<Target['deploy']>>> = {
  'sets BurstSize beside permits': ['limited', { webhookRateLimitBurstSize: 100_000 }],
  'raises the tolerance': ['tolerated', { webhookReplayToleranceSeconds: 86_000 }],
  'names an unsigned header in place of the hash of the body': ['added', { webhookNonceHeader: 'X-Any' }],
  'names a key of its own': ['push', { webhookHmacKey: 'a key that the attacker knows' }],
  'adds a previous key of its own': ['push', { webhookHmacKeyPrevious: 'a key that the attacker knows' }],
  'names a scheme that nobody knows': ['push', { webhookSignatureScheme: 'Genric' }],
  'turns Enforce to Off': ['push', { webhookEnforcementMode: 'Off' }],
  'turns Enforce to Audit': ['push', { webhookEnforcementMode: 'Audit' }],
  'replaces a schema by {}': ['pattern', { webhookBodySchema: {} }],
  'takes the scheme away': ['push', { webhookSignatureScheme: undefined, webhookHmacKey: undefined }],
};

const widerDeploy = ([what, [slug, inputs]]: [string, Parameters<Target['deploy']>]): Attack => ({
  rule: 'no deploy lets more in unless that is allowed',
  attack: `${what} in a manifest sent by PUT`,
  async run(target) {
    const deployed = async () => (await target.ask(`flows/${idOf(slug)}`, { by: 'reader' })).body.revision;
    const before = await deployed();
    for (const allow of [undefined, 'caution']) {
      expect(await target.deploy(slug, inputs, allow === undefined ? {} : { allow })).toMatchObject({
        status: 409,
        body: { access: 'wider', action: 'refused' },
      });
    }
    expect(await deployed()).toBe(before);
    expect(await target.send(slug, github(undefined, {}, 'a key that the attacker knows'))).not.toMatchObject({
      status: 200,
    });
  },
});

export const WHO_GETS_IN: readonly Attack[] = [
  ...Object.entries(FORGERIES).map(forgedSession),
  ...Object.entries(WIDER).map(widerDeploy),
  {
    rule: 'names are unique over all credentials',
    attack: 'has a token named like the user of the dashboard, or like the token of the settings',
    async run({ workspace }) {
      for (const name of [LOGIN.user, 'token']) {
        const tokens = [{ name, token: TOKENS.reader, scopes: ['read'] }];
        await writeFile(join(workspace.folder, 'same-name.json'), JSON.stringify(tokens));
        const starting = startService(workspace, {
          SLUICE_TOKENS: 'same-name.json',
          SLUICE_DASHBOARD_USER: LOGIN.user,
          SLUICE_DASHBOARD_PASSWORD: LOGIN.password,
          SLUICE_DASHBOARD_TOKEN: TOKENS.operator,
          SLUICE_DATABASE_URL: 'sqlite::memory:',
        });
        await expect(starting).rejects.toThrow(`the token ${name} has the`);
      }
    },
  },
  {
    rule: 'a token does what its scopes say',
    attack: 'logs in with a token that reads, and changes something with the session',
    async run(target) {
      const headers = { cookie: await target.logIn('reader') };
      expect(await target.ask('runs', { headers })).toMatchObject({ status: 200 });
      const disabled = await target.ask(`flows/${idOf('push')}/disable`, { headers, method: 'POST' });
      expect(disabled).toMatchObject({ status: 403, reason: 'insufficient_scope' });
      const deployed = await target.ask(`flows/${idOf('push')}`, {
        by: 'operator',
        method: 'PUT',
        body: target.manifest('push'),
      });
      expect(deployed).toMatchObject({ status: 403, reason: 'insufficient_scope' });
    },
  },
  {
    rule: 'a log-out ends a session at once, its event streams included',
    attack: 'keeps a copy of a cookie, and a stream that it opened',
    async run(target) {
      const headers = { cookie: await target.logIn('reader') };
      const stream = await fetch(`${target.service().url}/flows/api/events/stream`, { headers });
      const rest = stream.text();
      await fetch(`${target.service().url}/flows/logout`, { method: 'POST', headers, redirect: 'manual' });
      await rest;
      expect(await target.ask('runs', { headers })).toMatchObject({ status: 401 });
    },
  },
  {
    rule: 'wrong logins delay their own answers alone',
    attack: 'has 24 wrong logins in flight',
    async run(target) {
      let answered = 0;
      const basic = (password: string) => `Basic ${Buffer.from(`${LOGIN.user}:${password}`).toString('base64')}`;
      const wrong = Array.from({ length: 24 }, (_, n) =>
        target.ask('runs', { headers: { authorization: basic(`guess ${n}`) } }).then(({ status }) => {
          answered += 1;
          return status;
        }),
      );
      expect(await target.ask('runs', { headers: { authorization: basic(LOGIN.password) } })).toMatchObject({
        status: 200,
      });
      expect(answered).toBeLessThan(24);
      for (const status of await Promise.all(wrong)) expect([401, 429]).toContain(status);
    },
  },
  {
    rule: 'what the service made itself is nobody’s to change',
    attack: 'runs, disables and replaces the flow of the alerts',
    async run({ ask, manifest }) {
      const flow = 'flows/5a1e9a1e-47c8-4d0e-9b5a-0c1d5ce5a1e7';
      for (const asked of [
        ask(`${flow}/trigger`, { by: 'deployer', method: 'POST' }),
        ask(`${flow}/disable`, { by: 'deployer', method: 'POST' }),
        ask(flow, { by: 'deployer', method: 'PUT', body: manifest('push') }),
      ]) {
        expect(await asked).toMatchObject({ status: 403, reason: 'built_in_flow' });
      }
    },
  },
  {
    rule: 'a plan is sealed',
    attack: 'alters the token of a plan, and uses that of somebody else',
    async run({ ask }) {
      const { body } = await ask('runs/cancel', { by: 'operator', body: {} });
      const token = String(body.token);
      const [head = '', ids = '', code = ''] = token.split('.');
      const further = Buffer.concat([Buffer.from(ids, 'base64url'), Buffer.alloc(16, 7)]).toString('base64url');
      const carriedOut = (given: string, by: 'operator' | 'deployer') =>
        ask('runs/cancel', { by, body: { plan: false, token: given } });
      expect(await carriedOut(`${head}.${further}.${code}`, 'operator')).toMatchObject({ status: 400 });
      expect(await carriedOut(`${head}.${ids}.`, 'operator')).toMatchObject({ status: 400 });
      expect(await carriedOut(token, 'deployer')).toMatchObject({ status: 400 });
      expect(await carriedOut(token, 'operator')).toMatchObject({ status: 200 });
    },
  },
  {
    rule: 'a change that lets more in behind the name of a file is refused',
    attack: 'replaces the schema of a file: reference by {}, and lets the service reload and restart',
    async run(target) {
      const bad = () => target.send('filed', github('{"no":1}'));
      expect(await bad()).toMatchObject({ status: 422, reason: 'body_schema' });
      await writeFile(join(target.workspace.folder, 'manifests/order.schema.json'), '{}');
      expect(await target.ask('flows/reload', { by: 'deployer', method: 'POST' })).toMatchObject({ status: 409 });
      expect(await bad()).toMatchObject({ status: 422 });
      await target.restart();
      expect(await bad()).toMatchObject({ status: 422, reason: 'body_schema' });
    },
  },
  {
    rule: 'a trigger under the same slug is the same route, whatever it is called',
    attack: 'renames the trigger of a flow, and lets the new one verify nothing',
    async run(target) {
      const { triggers } = target.manifest('push') as { triggers: { hook: { inputs: object } } };
      const { hook } = triggers;
      const inputs = { ...hook.inputs, webhookEnforcementMode: 'Off' };
      const renamed = { other: { ...hook, inputs } };
      for (const allow of ['caution', 'caution,breaking']) {
        expect(await target.deploy('push', {}, { allow, others: { triggers: renamed } })).not.toMatchObject({
          status: 200,
        });
      }
      expect(await target.send('push', github(undefined, {}, 'wrong'))).toMatchObject({ status: 401 });
    },
  },
  {
    rule: 'a deploy whose needs cannot be stored is refused',
    attack: 'deploys a key in plain text by PUT, and lets the service start again',
    async run(target) {
      const key = 'a key that only this deploy had';
      const deployed = await target.deploy('limited', { webhookHmacKey: key }, { allow: 'access' });
      expect(deployed).toMatchObject({ status: 200 });
      await target.restart();
      expect(await target.send('limited', github(undefined, {}, key))).toMatchObject({ status: 200 });
    },
  },
  {
    rule: 'a start lets no more in than was deployed',
    attack: 'turns the mode Off in the folder, and restarts the service',
    async run(target) {
      await target.workspace.writeManifest('push.json', target.manifest('push', { webhookEnforcementMode: 'Off' }));
      await target.restart();
      expect(await target.send('push', github(undefined, {}, 'wrong'))).toMatchObject({ status: 401 });
      await written(target.service(), 'access');
      await target.workspace.writeManifest('push.json', target.manifest('push'));
    },
  },
  {
    rule: 'no flow comes to a slug that is not shared, nor past other gates',
    attack: 'deploys a flow of their own onto the slugs of others, with any override',
    async run(target) {
      const id = randomUUID();
      const onto = (slug: Slug, inputs: object) =>
        target.ask(`flows/${id}?allow=access,caution,breaking`, {
          by: 'deployer',
          method: 'PUT',
          body: target.manifest(slug, inputs, { id, name: 'a stranger' }),
        });
      const { webhookSignatureScheme, ...unsigned } = { webhookSignatureScheme: undefined, webhookShared: true };
      const tried = [
        await onto('push', { webhookShared: true }),
        await onto('shared', { webhookShared: false }),
        await onto('shared', { webhookShared: true, webhookHmacKey: 'a key of the stranger alone' }),
        await onto('shared', { webhookShared: true, webhookEnforcementMode: 'Off' }),
        await onto('shared', { ...unsigned, webhookSignatureScheme, webhookHmacKey: undefined }),
      ];
      for (const { status } of tried) expect(status).toBeGreaterThanOrEqual(400);
      for (const slug of ['push', 'shared'] as const) {
        const { status, body } = await target.send(slug, github());
        expect(status).toBe(200);
        expect(body).not.toHaveProperty('runs');
      }
    },
  },
  {
    rule: 'an answer says nothing of the signature',
    attack: 'under Audit, compares the answer of a step to a forgery with that to the publisher',
    async run(target) {
      const answers = [
        await target.send('answering', github()),
        await target.send('answering', github('{}', {}, 'wrong')),
      ];
      const shapes = answers.map(({ status, body }) => [status, Object.keys(body).sort()]);
      expect(shapes[0]).toEqual(shapes[1]);
    },
  },
  {
    rule: 'no name steers a terminal',
    attack: 'deploys a flow whose name has escape sequences, and lets the service start again',
    async run(target) {
      const name = 'a\u001b[2J\u009b31m\u202eb';
      const deployed = await target.deploy('unique', {}, { others: { name } });
      if (deployed.status === 200) await target.restart();
      else expect(deployed.status).toBe(400);
      const log = () =>
        eventually(
          async () => target.service().output(),
          (text) => text.includes('Webhooks:'),
        );
      // biome-ignore lint/suspicious/noControlCharactersInRegex: the log must contain none of these.
      expect(await log()).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/);
    },
  },
];
