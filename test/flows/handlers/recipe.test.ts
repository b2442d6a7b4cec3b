import { readdirSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { stepTypes } from '../../../src/config/steps.ts';
import { runFlow } from '../../../src/features/rehearsal/testing.ts';
import { buildApp } from '../../database.ts';
import { temporaryFolder } from '../../temporary.ts';
import { cel, manifestOf, openFlowService, stepOf } from '../fixture.ts';
import { greet } from './recipe/greet.ts';

const manifest = manifestOf({ first: stepOf('Greet', { inputs: { name: cel('trigger.body') } }) });

/** Files of the folder that define no step type. */
const OTHERS = ['handler.ts', 'index.ts', 'egress.ts', 'guarded-get.ts', 'outside.ts'];

describe('a step type by the recipe', () => {
  it('runs, with its inputs rendered', async () => {
    const run = await runFlow(manifest, { body: 'Ada', handlers: { Greet: greet } });
    expect(run.steps.first).toMatchObject({ status: 'Succeeded', output: 'hello Ada' });
  });

  it('is listed with the schema of its inputs', async () => {
    const folder = temporaryFolder('recipe');
    await mkdir(join(folder, 'manifests'));
    const app = await buildApp({
      settings: { databaseUrl: 'sqlite::memory:' },
      extensions: { handlers: [greet] },
      folder,
    });
    await app.fastify.ready();
    const listed = (await app.fastify.inject('/flows/api/handlers')).json();
    await app.close();
    expect(listed).toContainEqual({
      type: 'Greet',
      inputs: expect.objectContaining({ properties: { name: { type: 'string', description: 'Who is greeted.' } } }),
      secretInputs: [],
    });
  });

  it('refuses a signal, because it says that it waits for none', async () => {
    const service = await openFlowService({ own: [greet] });
    await service.deploy({ first: stepOf('Greet', { inputs: { name: 'Ada' } }) });
    const runId = await service.trigger();
    expect(await service.runtime.control.signal({ runId, name: 'go', body: null })).toEqual({ kind: 'unknownName' });
  });

  it.each(readdirSync('src/flows/handlers').filter((file) => !OTHERS.includes(file)))(
    '%s defines step types that are in the list',
    async (file) => {
      const types = stepTypes().handlers.map(({ type }) => type);
      const exported = Object.values(await import(`../../../src/flows/handlers/${file.slice(0, -3)}.ts`));
      const made = exported.flatMap((each) => {
        const handler = typeof each === 'function' && each.name.startsWith('create') ? each({ egressAllow: [] }) : each;
        return typeof handler === 'object' && handler !== null && 'type' in handler ? [handler.type] : [];
      });
      expect(made.length).toBeGreaterThan(0);
      expect(types).toEqual(expect.arrayContaining(made));
    },
  );
});
