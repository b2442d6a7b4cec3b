import { DeliveriesPage } from './deliveries/deliveries-page.tsx';
import { DeliveryPage } from './deliveries/delivery-page.tsx';
import { ReadinessPage } from './deliveries/readiness-page.tsx';
import { FlowPage } from './flows/flow-page.tsx';
import { FlowsPage } from './flows/flows-page.tsx';
import { OverviewPage } from './overview/overview-page.tsx';
import type { Route } from './router.ts';
import { RunPage } from './runs/run-page.tsx';
import { RunsPage } from './runs/runs-page.tsx';
import { SchedulesPage } from './schedules/schedules-page.tsx';

/** Every place of the page; the first that matches is shown. */
export const routes: readonly Route[] = [
  { path: '/flows', page: OverviewPage, title: 'Overview' },
  { path: '/flows/deliveries', page: DeliveriesPage, title: 'Deliveries' },
  { path: '/flows/deliveries/readiness', page: ReadinessPage, title: 'Safe to enforce?' },
  { path: '/flows/deliveries/:id', page: DeliveryPage, title: 'Delivery' },
  { path: '/flows/flows', page: FlowsPage, title: 'Flows' },
  { path: '/flows/flows/:id', page: FlowPage, title: 'Flow' },
  { path: '/flows/runs', page: RunsPage, title: 'Runs' },
  { path: '/flows/runs/:id', page: RunPage, title: 'Run' },
  { path: '/flows/schedules', page: SchedulesPage, title: 'Schedules' },
];
