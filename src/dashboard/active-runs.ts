import type { Run } from '../model/run.ts';
import type { Store } from '../store/store.ts';
import { runView } from './api/run-view.ts';

/** So many runs are read, and written into the answer, before others have their turn: about 3 ms. */
export const RUNS_AT_ONCE = 500;

const pageOf = async (store: Pick<Store, 'listRuns'>, before?: Run): Promise<Run[]> =>
  (await store.listRuns({ status: 'Running', skip: 0, take: RUNS_AT_ONCE, before })).items;

/**
 * Every run in flight, newest first, as the text of a JSON array in parts. There may be a hundred thousand of them, and
 * an answer made in one go would hold up every delivery meanwhile.
 */
export async function* activeRunsJson(store: Pick<Store, 'listRuns'>): AsyncGenerator<string> {
  let runs = await pageOf(store);
  yield '[';
  for (let isFirst = true; runs.length > 0; isFirst = false) {
    const items = runs.map((run) => JSON.stringify(runView(run))).join(',');
    yield isFirst ? items : `,${items}`;
    runs = runs.length < RUNS_AT_ONCE ? [] : await pageOf(store, runs.at(-1));
  }
  yield ']';
}
