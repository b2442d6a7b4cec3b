import { expect, it } from 'vitest';
import { createWorkspace, eventually, FLOW_ID, getJson, type Service, startService } from './service.ts';

const KILLS = Number(process.env.TEST_KILLS ?? 20);

const manifestOf = (version: number) => ({
  id: FLOW_ID,
  name: 'push',
  version: String(version),
  steps: Object.fromEntries(Array.from({ length: version }, (_, n) => [`step-${n}`, { type: 'NoOp' }])),
});

interface Revision {
  readonly revision: number;
  readonly version: string;
}

it(`a service that is killed ${KILLS} times while it deploys always has a whole revision, and each that it answered`, async () => {
  const workspace = await createWorkspace();
  await workspace.writeManifest('push.json', manifestOf(1));
  let service: Service = await startService(workspace);
  const url = (path = '') => `${service.url}/flows/api/flows/${FLOW_ID}${path}`;
  let wanted = 1;
  let answered = 1;
  try {
    for (let kill = 0; kill < KILLS; kill += 1) {
      const deploying = (async () => {
        for (;;) {
          const response = await fetch(url(), { method: 'PUT', body: JSON.stringify(manifestOf(wanted + 1)) });
          expect(response.status).toBe(200);
          wanted += 1;
          answered = wanted;
        }
      })().catch((error: unknown) => {
        // A broken connection (TypeError) is expected; a wrong answer is not.
        if (!(error instanceof TypeError)) throw error;
      });
      const before = answered;
      await eventually(
        async () => answered,
        (count) => count > before + (kill % 4),
      );
      await Promise.all([service.stop('SIGKILL'), deploying]);
      // The folder has the last answered deploy; the database may be at most one whole deploy ahead.
      await workspace.writeManifest('push.json', manifestOf(answered));
      service = await startService(workspace, { SLUICE_REFUSED_DEPLOYS: 'fail' });
      const revisions = await getJson<Revision[]>(url('/revisions?take=500'));
      expect(revisions.map(({ version }) => Number(version))).toContain(answered);
      for (const { revision, version } of revisions.slice(0, 3)) {
        const one = await getJson<{ manifest: { version: string; steps: object } }>(url(`/revisions/${revision}`));
        expect(one.manifest.version).toBe(version);
        expect(Object.keys(one.manifest.steps)).toHaveLength(Number(version));
      }
      wanted = answered;
    }
  } finally {
    await service.stop('SIGKILL');
  }
});
