import { generateKeyPairSync, sign } from 'node:crypto';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { keyName, sealEvidence, verifyEvidence } from '../../../src/features/evidence/bundle.ts';
import { runCli } from '../../e2e/cli.ts';
import {
  createWorkspace,
  eventually,
  githubManifest,
  type Service,
  startService,
  type Workspace,
} from '../../e2e/service.ts';

const { publicKey, privateKey } = generateKeyPairSync('ed25519');
const PRIVATE_PEM = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
const PUBLIC_PEM = publicKey.export({ type: 'spki', format: 'pem' }).toString();
const SUBJECT = { deliveryId: 'd', runId: 'r', createdAt: '2026-11-22T00:00:00.000Z', version: '0.1.0' };

describe('a bundle of evidence', () => {
  const parts = [
    { name: 'delivery.json', mediaType: 'application/json', content: Buffer.from('{"id":"d"}') },
    { name: 'body', mediaType: 'application/octet-stream', content: Buffer.from([0xff, 0x00, 0x41]) },
  ];

  it('gives back every byte of every part', () => {
    fc.assert(
      fc.property(fc.uint8Array(), fc.string({ unit: 'binary' }), (bytes, text) => {
        const [one, other] = [Buffer.from(bytes), Buffer.from(text)];
        const sealed = sealEvidence(
          SUBJECT,
          [
            { name: 'a', mediaType: 'x', content: one },
            { name: 'b', mediaType: 'y', content: other },
          ],
          privateKey,
        );
        const verdict = verifyEvidence(sealed, publicKey);
        if (!verdict.isProven) throw new Error(verdict.why);
        expect(verdict.parts.map(({ content }) => Buffer.from(content).equals(one))[0]).toBe(true);
        expect(Buffer.from(verdict.parts[1]?.content ?? []).equals(other)).toBe(true);
      }),
    );
  });

  it('proves nothing once any letter or digit of it is another', () => {
    const sealed = sealEvidence(SUBJECT, parts, privateKey);
    const places = [...sealed].flatMap((unit, at) => (/[A-Za-z0-9]/.test(unit) ? [at] : []));
    for (const at of places) {
      // Also the neighbouring character: at the end of Base64 it may mean the same bytes.
      for (const other of [sealed[at] === 'A' ? 'B' : 'A', String.fromCharCode(sealed.charCodeAt(at) ^ 1)]) {
        if (!/[A-Za-z0-9]/.test(other)) continue;
        const verdict = verifyEvidence(`${sealed.slice(0, at)}${other}${sealed.slice(at + 1)}`, publicKey);
        expect(verdict.isProven, `at ${at}: ${sealed.slice(at - 20, at + 20)}`).toBe(false);
      }
    }
  });

  const bundle = (): { statement: string; signature: string | null; parts: object[] } =>
    JSON.parse(sealEvidence(SUBJECT, parts, privateKey));
  it.each([
    ['a part less', { ...bundle(), parts: bundle().parts.slice(1) }, 'it contains the parts body'],
    ['a part twice', { ...bundle(), parts: [...bundle().parts, ...bundle().parts] }, 'it contains the parts'],
    ['no signature', { ...bundle(), signature: null }, 'it is not signed'],
    ['another format', { ...bundle(), format: 'sluice-evidence-v9' }, 'it is not evidence'],
    ['no JSON', undefined, 'it is not evidence'],
  ])('says why one with %s proves nothing', (_, altered, why) => {
    const verdict = verifyEvidence(altered === undefined ? 'text' : JSON.stringify(altered), publicKey);
    expect(verdict).toEqual({ isProven: false, why: expect.stringContaining(why) });
  });

  it('is not proven by the key of someone else', () => {
    const other = generateKeyPairSync('ed25519').publicKey;
    const verdict = verifyEvidence(sealEvidence(SUBJECT, parts, privateKey), other);
    expect(verdict).toEqual({ isProven: false, why: expect.stringContaining(keyName(other)) });
  });
});

describe('sluice evidence', () => {
  let workspace: Workspace;
  let service: Service;
  beforeAll(async () => {
    workspace = await createWorkspace();
    await writeFile(join(workspace.folder, 'private.pem'), PRIVATE_PEM);
    await writeFile(join(workspace.folder, 'public.pem'), PUBLIC_PEM);
    await workspace.writeManifest('push.json', githubManifest({ inputs: { webhookEnforcementMode: 'Enforce' } }));
    service = await startService(workspace, { SLUICE_EVIDENCE_KEY: 'file:private.pem' });
  });
  afterAll(() => service.stop('SIGTERM'));

  const cli = (...args: string[]) => runCli(workspace, args);
  const sent = async (...args: string[]) => {
    const { stdout } = await cli('send', 'push', '--to', service.url, ...args);
    return JSON.parse(stdout.slice(stdout.indexOf('{'))) as { deliveryId: string; runId: string };
  };

  it('fetches what proves an accepted delivery with its run, and verifies it without the service', async () => {
    const { deliveryId, runId } = await sent();
    await eventually(
      async () => (await (await fetch(`${service.url}/flows/api/runs/${runId}`)).json()) as { status: string },
      ({ status }) => status === 'Succeeded',
    );
    expect(await cli('evidence', deliveryId, '--to', service.url, '-o', 'e.json')).toMatchObject({ code: 0 });
    const verified = await cli('evidence', 'verify', 'e.json', '--key', 'public.pem', '--extract', 'parts');
    expect(verified).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(`proven: signed by ${keyName(publicKey)}`),
    });
    expect(verified.stdout).toContain(`delivery ${deliveryId}, run ${runId}`);
    await writeFile(join(workspace.folder, 'parts/run.json'), 'mine');
    const again = await cli('evidence', 'verify', 'e.json', '--key', 'public.pem', '--extract', 'parts');
    expect(again).toMatchObject({ code: 2, stderr: expect.stringContaining('it exists; give an empty folder') });
    expect(await readFile(join(workspace.folder, 'parts/run.json'), 'utf8')).toBe('mine');
    await rm(join(workspace.folder, 'parts'), { recursive: true });
    await cli('evidence', 'verify', 'e.json', '--key', 'public.pem', '--extract', 'parts');
    const part = (name: string) => readFile(join(workspace.folder, 'parts', name), 'utf8');
    expect(JSON.parse(await part('delivery.json'))).toMatchObject({ id: deliveryId, statusCode: 200 });
    expect(JSON.parse(await part('run.json'))).toMatchObject({ id: runId, status: 'Succeeded' });
    expect(JSON.parse(await part('steps.json'))).toMatchObject({ stepsTotal: 2 });
    expect(JSON.parse(await part('revision.json'))).toMatchObject({ revision: 1, hash: expect.any(String) });
    expect(JSON.parse(await part('activity.json'))).toEqual([]);
    expect((await part('body')).length).toBeGreaterThan(2);
    expect(await readFile(join(workspace.folder, 'e.json'), 'utf8')).not.toContain('PRIVATE');
  });

  it('is signed by the key that proves it, whatever key it claims', async () => {
    const bundle = JSON.parse(sealEvidence({ ...SUBJECT, version: '\u001b[2J\u202e' }, [], privateKey));
    bundle.statement = JSON.stringify({ ...JSON.parse(bundle.statement), key: 'sha256:of-somebody-else' });
    bundle.signature = sign(null, Buffer.from(bundle.statement), privateKey).toString('base64');
    await writeFile(join(workspace.folder, 'claims.json'), JSON.stringify(bundle));
    const { stdout } = await cli('evidence', 'verify', 'claims.json', '--key', 'public.pem');
    expect(stdout).toContain(`proven: signed by ${keyName(publicKey)} on`);
    expect(stdout).not.toContain('somebody');
    // Nor can its text control the terminal.
    expect(stdout).toContain('Sluice \\u001b[2J\\u202e');
  });

  it('of a refused delivery holds the body and the result of each gate', async () => {
    await sent('--wrong-key');
    const list = await fetch(`${service.url}/flows/api/webhooks/recent?rejectedOnly=true&take=1`);
    const [{ id }] = (await list.json()) as [{ id: string }];
    const text = await (await fetch(`${service.url}/flows/api/webhooks/${id}/evidence`)).text();
    const verdict = verifyEvidence(text, publicKey);
    if (!verdict.isProven) throw new Error(verdict.why);
    const { gateResults, reason } = JSON.parse(Buffer.from(verdict.parts[0]?.content ?? []).toString());
    expect(reason).toBe('signature_mismatch');
    expect(gateResults).toContainEqual(expect.objectContaining({ gate: 'signature', outcome: 'failed' }));
    expect(verdict.parts.map(({ name }) => name)).toEqual(['delivery.json', 'body', 'activity.json']);
  });

  it('says what it cannot use: an altered file, a private key, a key of another kind, no file', async () => {
    const { deliveryId } = await sent();
    await cli('evidence', deliveryId, '--to', service.url, '-o', 'altered.json');
    const file = join(workspace.folder, 'altered.json');
    await writeFile(
      file,
      (await readFile(file, 'utf8')).replaceAll('"Enforce"', '"Audit"').replaceAll('Enforce', 'Audit'),
    );
    const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).publicKey.export({ type: 'spki', format: 'pem' });
    await writeFile(join(workspace.folder, 'rsa.pem'), rsa);
    const verify = (name: string, key: string) => cli('evidence', 'verify', name, '--key', key);
    expect(await verify('altered.json', 'public.pem')).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(/^not proven: /),
    });
    expect(await verify('altered.json', 'private.pem')).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/is a private key/),
    });
    expect(await verify('altered.json', 'rsa.pem')).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/not an Ed25519 public key/),
    });
    expect(await verify('none.json', 'public.pem')).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/cannot be read/),
    });
  });

  it('starts with no other key than an Ed25519 private one', async () => {
    for (const key of ['abc', PUBLIC_PEM]) {
      const ended = startService(workspace, { SLUICE_EVIDENCE_KEY: key });
      await expect(ended).rejects.toThrow('SLUICE_EVIDENCE_KEY: is not an Ed25519 private key as PEM');
    }
  });
});
