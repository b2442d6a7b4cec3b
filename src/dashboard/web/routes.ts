import { OverviewPage } from './overview/overview-page.tsx';
import type { Route } from './router.ts';

/** Every place of the page; the first that matches is shown. */
export const routes: readonly Route[] = [{ path: '/flows', page: OverviewPage, title: 'Overview' }];
