import { OverviewPage } from './overview/overview-page.tsx';
import type { Route } from './router.ts';
import { RunPage } from './runs/run-page.tsx';
import { RunsPage } from './runs/runs-page.tsx';
import { SchedulesPage } from './schedules/schedules-page.tsx';

/** Every place of the page; the first that matches is shown. */
export const routes: readonly Route[] = [
  { path: '/flows', page: OverviewPage, title: 'Overview' },
  { path: '/flows/runs', page: RunsPage, title: 'Runs' },
  { path: '/flows/runs/:id', page: RunPage, title: 'Run' },
  { path: '/flows/schedules', page: SchedulesPage, title: 'Schedules' },
];
